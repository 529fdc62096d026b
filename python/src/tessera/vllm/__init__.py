# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM with tessera's policies.

    LLM(model, scheduler_cls="tessera.vllm.Scheduler",
        additional_config={"tessera": {"policy": "pascal"}})

``python -m tessera.vllm --check`` says what of a configuration is supported. What is not is handed back to vLLM's own
scheduler with one warning, or, if it is a matter of one request, refused as an error of that request.
"""

from typing import TYPE_CHECKING, Any

from tessera.vllm.options import Options, OptionsError, policies

if TYPE_CHECKING:
    from tessera.vllm.scheduler import Scheduler

__all__ = ["Options", "OptionsError", "Scheduler", "policies"]


def __getattr__(name: str) -> Any:
    # vLLM takes seconds to import: only who wants the scheduler waits for it.
    if name == "Scheduler":
        from tessera.vllm.scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
