# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys
from importlib.util import find_spec
from pathlib import Path

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here / "fleet"), str(here.parents[1] / "examples" / "ray")]

# Not imported: that would load OpenMP before its number of threads is set. The folder vllm beside this is none.
found = find_spec("vllm")
if found is None or found.origin is None:
    collect_ignore = ["vllm"]
