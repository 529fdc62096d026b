# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tessera.vllm --check [vLLM's options]

Says what of a configuration tessera schedules, before an engine is started for it. Without options: what there is.
Exits with 0 if tessera would schedule, 1 if vLLM's own scheduler would, 2 if an option is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any

import tessera
from tessera.vllm.options import OptionsError, parameters, takes

usage = "python -m tessera.vllm --check [vLLM's options, as for `vllm serve`: --model, --additional-config, ...]"


def _say_policies() -> None:
    print("Policies, for additional_config={'tessera': {'policy': ...}}:")
    for policy, own in takes.items():
        print(f"  {policy}")
        for name in own:
            p = parameters[name]
            print(f"    {name:20} {p.allowed()}, {p.default} if not given: {p.meaning}")


def _say_support() -> None:
    from tessera.vllm.support import _questions, of_memory

    print("Done by vLLM's own scheduler, with a warning:")
    for reason in (*(reason for reason, _ in _questions), *of_memory):
        print(f"  {reason}")


def _asked(config: Any) -> Iterator[tuple[str, str]]:
    """What a configuration asks a scheduler for, for the table."""
    from tessera.vllm import _api as api
    from tessera.vllm.support import budget_of

    limits, cache = config.scheduler_config, config.cache_config
    drafter = getattr(config.speculative_config, "method", None)
    connector = getattr(config.kv_transfer_config, "kv_connector", None)
    yield "requests at once", str(limits.max_num_seqs)
    yield "tokens of a step", str(budget_of(limits))
    yield "prompts", "in chunks" if limits.enable_chunked_prefill else "in one piece"
    yield "prefix caching", "on" if cache.enable_prefix_caching else "off"
    yield "steps in flight", str(api.plans_in_flight(config))
    yield "drafts", f"{api.most_drafts(config)} by {drafter}" if drafter else "none"
    yield "adapters", str(config.lora_config.max_loras) if config.lora_config is not None else "none"
    yield "KV connector", connector or "none"


def _say_table(rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:{width}}  {value}")


def _check(arguments: list[str]) -> int:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    print(f"tessera {tessera.__version__}")
    if not arguments:
        _say_policies()
    try:
        from tessera.vllm import _api as api
    except ImportError as error:
        print(f"vLLM is not installed: {error}", file=sys.stderr)
        return 1
    print(f"vLLM {api.version}" + ("" if api.is_tested() else f" (tested: {', '.join(api.tested)})"))
    if not arguments:
        _say_support()
        return 0

    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    from tessera.vllm.scheduler import Scheduler, options_of
    from tessera.vllm.support import most_groups, why_not_config, why_not_model, why_not_shadow

    parser = api.server_parser(FlexibleArgumentParser(prog="python -m tessera.vllm --check", usage=usage))
    arguments_of = parser.parse_args(arguments)
    if getattr(arguments_of, "model_tag", None) is not None:
        arguments_of.model = arguments_of.model_tag
    try:
        config = EngineArgs.from_cli_args(arguments_of).create_engine_config()
    except Exception as error:  # whatever vLLM raises
        print(f"vLLM does not take this: {error}", file=sys.stderr)
        return 2
    try:
        options = options_of(config)
    except OptionsError as error:
        print(error, file=sys.stderr)
        return 2
    if options.parameters:
        print(f"Parameters of {options.policy}: {options.parameters}")
    others = [name for name in config.additional_config or {} if name != "tessera"]
    if others and "tessera" not in config.additional_config:
        print(f"additional_config has no options for tessera: it names {', '.join(map(repr, others))}")
    named = config.scheduler_config.scheduler_cls
    if named not in (Scheduler, "tessera.vllm.Scheduler", "tessera.vllm.scheduler.Scheduler"):
        print("Not chosen yet: add --scheduler-cls tessera.vllm.Scheduler")
    reasons = list(why_not_shadow(config) if options.shadow else why_not_config(config))
    unknown = None
    try:
        reasons += why_not_model(config)
    except Exception as error:  # whatever vLLM raises
        unknown = error
    by = (
        "vLLM's own scheduler"
        if reasons or options.shadow
        else "tessera"
        if unknown is None
        else "tessera, or vLLM's own"
    )
    rows = [("scheduler", by), ("policy", options.policy), *_asked(config)]
    _say_table([*rows, *(("not supported", reason) for reason in reasons)])
    if options.shadow:
        print("vLLM's own scheduler would do all of it, and tessera " + ("watch nothing." if reasons else "watch it."))
        return 1
    if reasons and not options.fallback:
        print('That is an error at start because "fallback" is false.', file=sys.stderr)
        return 2
    if reasons:
        print("vLLM's own scheduler would do all of it.")
        return 1
    if unknown is not None:
        print(f"The model's layers are not known before it is loaded: {unknown}", file=sys.stderr)
        print(
            f"tessera would schedule, if they make at most {most_groups} groups of KV blocks, of attention to all or "
            "to a window, or of states."
        )
    else:
        print("tessera would schedule.")
    return 0


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--check":
        return _check(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tessera.vllm", usage=usage, description=__doc__)
    parser.add_argument("--check", action="store_true", required=True)
    parser.parse_args()
    return 2


if __name__ == "__main__":
    sys.exit(main())
