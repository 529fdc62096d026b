# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scheduling policies for LLM serving.

- ``tessera.vllm``: vLLM with these policies, by its option ``scheduler_cls="tessera.vllm.Scheduler"``;
- ``tessera.sim``: the simulator: workloads, traces, profiles and policies, results as columns;
- ``tessera.fleet``: a router's book and its policies, and a front end before engines that you have.
"""

from tessera import _vllm

__version__ = ".".join(str(part) for part in _vllm.version)
__all__ = ["__version__"]
