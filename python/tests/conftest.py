# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys
from pathlib import Path

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here / "fleet"), str(here.parents[1] / "examples" / "ray")]

try:
    import vllm  # noqa: F401
except ImportError:
    collect_ignore = ["vllm"]
