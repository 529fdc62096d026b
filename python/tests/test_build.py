# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a build says that lacks something."""

from __future__ import annotations

import os
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
