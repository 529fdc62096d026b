# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of a wrong type, in words: a native module would list its whole signature."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: By annotation: what is allowed, and its name.
_words: dict[str, tuple[type, str]] = {
    "int": (numbers.Integral, "a whole number"),
    "float": (numbers.Real, "a number"),
    "str": (str, "text"),
    "bool": (bool, "True or False"),
    "None": (type(None), "None"),
}


def types_in_words(function: Callable[P, R]) -> Callable[P, R]:
    """Checks the arguments that are annotated with these types alone, as in `int | None`. TypeError otherwise."""
    signature = inspect.signature(function)
    parts = {name: str(p.annotation).split(" | ") for name, p in signature.parameters.items()}
    wanted = {name: [_words[part] for part in of] for name, of in parts.items() if {*of} <= _words.keys()}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in wanted and not any(isinstance(value, kind) for kind, _ in wanted[name]):
                allowed = " or ".join(words for _, words in wanted[name])
                raise TypeError(f"{name} must be {allowed}, not {value!r:.80}")
            if name in wanted and isinstance(value, numbers.Integral) and not -(2**63) <= value < 2**63:
                raise ValueError(f"{name} is beyond 64 bits: {value!r:.80}")
        return function(*args, **kwargs)

    return checked
