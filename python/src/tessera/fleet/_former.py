# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of the version before. They work for one more version, and warn. And names that are likely mistakes."""

from __future__ import annotations

import warnings
from typing import Any

from tessera import _fleet

#: Parameters of `Router`, and their names now.
parameters = {"patience": "timeouts", "shun": "avoid_for"}
#: Names of `tessera.fleet`, and theirs now.
names = {"Patience": "Timeouts"}


def take_parameters(given: dict[str, Any]) -> dict[str, Any]:
    """Takes former parameters out of `given`. Returns their values by the names now."""
    found = {}
    for old, new in parameters.items():
        if old in given:
            warnings.warn(f"Router({old}=...) is now Router({new}=...)", DeprecationWarning, stacklevel=3)
            found[new] = given.pop(old)
    return found


def find_name(module: str, old: str) -> str:
    """The name now of a former name of `tessera.fleet`. AttributeError if there is none."""
    if old not in names:
        raise AttributeError(f"module {module!r} has no attribute {old!r}")
    warnings.warn(f"{module}.{old} is now {module}.{names[old]}", DeprecationWarning, stacklevel=3)
    return names[old]


def controller_of(policy: str) -> str:
    """The controller of a name of `tessera.fleet.policies`."""
    return "stages" if policy == "cascade" else policy.replace("_", "-")


def no_controller(name: str) -> str:
    """What to say of a name that is not a controller's."""
    likely = controller_of(name)
    if likely in _fleet.controllers:
        return f"controller {name}: it is called {likely}"
    expected = f"expected one of {', '.join(_fleet.controllers)}"
    from tessera import sim  # only here: a router needs no simulator

    if name in {policy.name for policy in sim.policies()}:
        return f"controller {name}: that is an order of requests inside an engine; {expected}"
    return f"controller {name}: {expected}"
