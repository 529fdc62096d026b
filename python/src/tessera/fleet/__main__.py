# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tessera.fleet replay LOG --controller NAME: what that controller would have decided."""

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


def main(words: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python -m tessera.fleet", description="Tools for routers of fleets.")
    programs = p.add_subparsers(dest="program", required=True)
    replay = programs.add_parser(
        "replay",
        help="asks a controller what it would have decided in a log",
        description="Asks a controller about each decision in a log of Router(record=LOG). Before each decision the "
        "book follows what was recorded.",
    )
    replay.add_argument("log", metavar="LOG")
    replay.add_argument(
        "--controller", choices=_fleet.controllers, help="by default the one of the log", metavar="NAME"
    )
    replay.add_argument("--settings", type=_object, default={}, help="JSON: settings instead of those of the log")
    replay.add_argument("--first", type=int, default=10, help="how many differences are shown (10)")
    o = p.parse_args(words)
    try:
        print(text_of(o.log, compare(o.log, o.controller, o.settings, o.first)))
    except OSError as error:
        print(f"{o.log}: {error.strerror or error}", file=sys.stderr)
        return 2
    except (TypeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
