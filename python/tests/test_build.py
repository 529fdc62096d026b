# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a build says that lacks something, and what the native modules use of Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

sources = Path(__file__).parent.parent


def test_without_a_compiler_it_names_what_to_install(tmp_path: Path) -> None:
    programs = {name: shutil.which(name) for name in ("cmake", "ninja", "sh", "uname")}
    if missing := [name for name, path in programs.items() if path is None]:
        pytest.skip(f"no {', '.join(missing)} here")
    (tmp_path / "bin").mkdir()
    for name, path in programs.items():
        (tmp_path / "bin" / name).symlink_to(path)
    ran = subprocess.run(
        [programs["cmake"], "-S", sources, "-B", tmp_path / "build", "-G", "Ninja"],
        env={"PATH": str(tmp_path / "bin"), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
    )
    assert ran.returncode != 0
    said = " ".join(ran.stderr.split())
    assert "No C++ compiler was found" in said
    assert "script/bootstrap --minimal" in said and "apt-get install g++" in said


def test_native_modules_keep_to_the_stable_abi() -> None:
    """From Python 3.12 on they are compiled with it. Before, no compiler says what is not in it."""
    outside = re.compile(r"\bPy[A-Z]\w*_(?:GET|SET)_(?:ITEM|SIZE)\b|->tp_\w+")
    for path in sorted((sources / "native").rglob("*.?pp")):
        text = path.read_text()
        # What is compiled only without it.
        text = re.sub(r"#if !defined\(Py_LIMITED_API\).*?#endif", "", text, flags=re.DOTALL)
        assert not (found := outside.findall(text)), f"{path.name} uses {found}"
