# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scikit-build-core, and one thing more: a source distribution carries what the native modules include and link to.

The compiler finds the headers: ours in the repository, those of Boost, range-v3, fmt and nlohmann-json in the system.
They are copied into vendor/ while the distribution is made, with the simulator's sources, and are never kept. Their
licences are in licenses/.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import scikit_build_core.build as _build
from scikit_build_core.build import (  # noqa: F401
    build_editable,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_here = Path(__file__).resolve().parent
_vendor = _here / "vendor"
_ours = _here.parent / "include"
_simulator = _here.parent / "src" / "sim"
# Headers of the other libraries, below a folder `include`. range-v3 has four folders there.
_theirs = re.compile(r"^(?P<root>.*/include)/(?P<path>(boost|range|concepts|meta|std|fmt|nlohmann)/.+)$")


def _closure(sources: list[Path]) -> set[Path]:
    """Every file that the compiler reads for these sources."""
    import nanobind

    compiler = shlex.split(os.environ.get("CXX", "c++"))
    includes = [_ours, nanobind.include_dir(), sysconfig.get_paths()["include"]]
    command = [*compiler, "-std=c++20", "-M", "-DFMT_HEADER_ONLY", *(f"-I{path}" for path in includes)]
    # As one source: then it reads every header once.
    everything = "".join(f'#include "{source}"\n' for source in sources)
    rule = subprocess.run(
        [*command, "-x", "c++", "-"], input=everything, check=True, capture_output=True, text=True
    ).stdout
    return {Path(word).resolve() for word in rule.replace("\\\n", " ").split()[1:]}


def _gather() -> None:
    shutil.rmtree(_vendor, ignore_errors=True)
    found: dict[str, Path] = {}
    boost_config = None
    for file in _closure(sorted([*(_here / "native").rglob("*.cpp"), *_simulator.rglob("*.cpp")])):
        text = file.as_posix()
        if file.is_relative_to(_ours):
            found[file.relative_to(_ours).as_posix()] = file
        elif (match := _theirs.match(text)) and "/c++/" not in match["root"]:
            found[match["path"]] = file
            if match["path"].startswith("boost/"):
                boost_config = Path(match["root"]) / "boost" / "config"
    if boost_config is None:
        raise RuntimeError("the compiler reads no header of Boost: is libboost-dev installed?")
    # Which of these are read depends on the compiler and the platform.
    for file in boost_config.rglob("*.hpp"):
        found[file.relative_to(boost_config.parent.parent).as_posix()] = file
    for path, file in found.items():
        target = _vendor / "include" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    shutil.copytree(_simulator, _vendor / "src" / "sim")


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    """A source distribution that needs a compiler and nothing else."""
    if not _ours.is_dir():  # one that is made of another one has them already
        return _build.build_sdist(sdist_directory, config_settings)
    try:
        _gather()
        return _build.build_sdist(sdist_directory, config_settings)
    finally:
        shutil.rmtree(_vendor, ignore_errors=True)
