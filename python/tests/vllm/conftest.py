# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import model  # noqa: E402

model.prepare()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--some", action="store_true", help="each value of a test's parameters once, not each combination")


@pytest.hookimpl(trylast=True)  # of what -k leaves
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--some", default=False):
        return
    tests: dict[str, dict[pytest.Item, set[tuple[str, str]]]] = {}
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {"": ""}
        values = {(name, repr(value)) for name, value in parameters.items()}
        tests.setdefault(item.nodeid.split("[")[0], {})[item] = values
    kept = set()
    for combinations in tests.values():
        left = set().union(*combinations.values())
        while left:
            item = max(combinations, key=lambda one: len(left & combinations[one]))
            left -= combinations[item]
            kept.add(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
