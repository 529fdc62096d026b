# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options that are changed while an engine runs, from the process of its client: for the controller of a fleet."""

from __future__ import annotations

import sys
from typing import Any

#: What vLLM's client calls by this name is looked up among the members of the engine core.
call = "tessera_set_option"


def offer() -> None:
    """Gives the engine core of this process, if there is one, the call."""
    module = sys.modules.get("vllm.v1.engine.core")
    if module is not None:
        setattr(module.EngineCore, call, _set_option)


def _set_option(engine_core: Any, name: str, value: Any) -> str:
    """Returns what is wrong; "": nothing. An exception would come to the client without its class."""
    change = getattr(engine_core.scheduler, "set_option", None)
    if change is None:
        return "tessera: vLLM's own scheduler serves, and has no options"
    try:
        change(name, value)
    except ValueError as error:
        return str(error)
    return ""


async def set_option(engine: Any, name: str, value: Any) -> None:
    """`Scheduler.set_option` of an AsyncLLM, in the process of its engine core. Raises ValueError as that does, and if
    vLLM's own scheduler serves."""
    if error := await engine.engine_core.call_utility_async(call, name, value):
        raise ValueError(error)
