# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tessera.fleet replay LOG --controller NAME: what that controller would have decided, and what the
simulator expects of it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from tessera import _fleet
from tessera.fleet.replay import compare, text_of


def _object(text: str) -> dict[str, Any]:
    try:
        got = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected JSON, an object: {error}") from None
    if not isinstance(got, dict):
        raise argparse.ArgumentTypeError("expected JSON, an object")
    return got


def _replay(o: argparse.Namespace) -> None:
    decided = text_of(o.log, compare(o.log, o.controller, o.settings, o.first))
    if o.profile is None and o.trace_out is None:
        print(decided)
        return
    from tessera.fleet import expected

    record = expected.read(o.log, o.settings)  # before anything is said: it may refuse the log
    print(decided)
    if o.trace_out is not None:
        expected.write_trace(record, o.trace_out)
        print(f"\n{o.trace_out}: a trace of {len(record.requests)} requests")
    if o.profile is not None:
        how = {"policy": o.policy, "max_batch": o.max_batch, "token_budget": o.token_budget}
        print("\n" + expected.text_of(expected.compare(record, o.profile, o.controller, **how)))


def _wrong(o: argparse.Namespace, replay: argparse.ArgumentParser) -> str | None:
    """What is wrong with the options, before a log is read."""
    for name in ("policy", "max_batch", "token_budget"):
        if o.profile is None and getattr(o, name) != replay.get_default(name):
            return f"--{name.replace('_', '-')} goes with --profile"
    for name, least in (("first", 0), ("max_batch", 1), ("token_budget", 1)):
        if getattr(o, name) < least:
            return f"--{name.replace('_', '-')}: expected a number from {least}, not {getattr(o, name)}"
    return None


def main(words: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python -m tessera.fleet", description="Tools for routers of fleets.")
    programs = p.add_subparsers(dest="program", required=True)
    replay = programs.add_parser(
        "replay",
        help="asks a controller what it would have decided in a log",
        description="Asks a controller about each decision in a log of Router(record=LOG). Before each decision the "
        "book follows what was recorded. With --profile it simulates the requests of the log as well, and shows what "
        "happened beside what was expected.",
    )
    replay.add_argument("log", metavar="LOG")
    replay.add_argument(
        "--controller", choices=_fleet.controllers, help="by default the one of the log", metavar="NAME"
    )
    replay.add_argument("--settings", type=_object, default={}, help="JSON: settings instead of those of the log")
    replay.add_argument("--first", type=int, default=10, help="how many differences are shown (10)")
    replay.add_argument("--profile", help="the model on its device, a name or a file: simulates the requests")
    replay.add_argument("--policy", default="fcfs", help="simulated: how each engine orders requests (fcfs)")
    replay.add_argument("--max-batch", type=int, default=256, help="simulated: requests in a step (256)", metavar="N")
    replay.add_argument(
        "--token-budget", type=int, default=8192, help="simulated: tokens in a step (8192)", metavar="N"
    )
    replay.add_argument("--trace-out", help="writes the requests as a trace, for `replay --trace FILE`", metavar="FILE")
    o = p.parse_args(words)
    wrong = _wrong(o, replay)
    if wrong is not None:
        print(wrong, file=sys.stderr)
        return 2
    try:
        if o.profile is not None:
            from tessera import sim

            sim.profile(o.profile)  # before the log is read: that may take a while
        _replay(o)
    except OSError as error:
        print(f"{error.filename or o.log}: {error.strerror or error}", file=sys.stderr)
        return 2
    except (TypeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
