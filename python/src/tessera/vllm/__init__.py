# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM with tessera's policies.

    LLM(model, scheduler_cls="tessera.vllm.Scheduler",
        additional_config={"tessera": {"policy": "pascal"}})

``python -m tessera.vllm --check`` says what of a configuration is supported. An unsupported configuration is handed
back to vLLM's own scheduler with one warning. An unsupported request is refused as an error of that request.
"""

from typing import TYPE_CHECKING, Any

from tessera.vllm.control import set_option
from tessera.vllm.options import Options, OptionsError, policies

if TYPE_CHECKING:
    from tessera.vllm.scheduler import Scheduler

__all__ = ["Options", "OptionsError", "Scheduler", "policies", "set_option"]


def __getattr__(name: str) -> Any:
    # vLLM takes seconds to import: only a caller that wants the scheduler waits for it.
    if name == "Scheduler":
        from tessera.vllm.scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
