# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of the version before work, and warn."""

from __future__ import annotations

import pytest

from tessera import fleet


def test_parameters_of_a_router() -> None:
    timeouts = fleet.Timeouts(token=3.0)
    with pytest.warns(DeprecationWarning, match="timeouts") as seen:
        router = fleet.Router(patience=timeouts, shun=7.0)
    assert router.timeouts is timeouts and router.avoid_for == 7.0
    assert [w.filename for w in seen] == [__file__] * 2


def test_timeouts() -> None:
    with pytest.warns(DeprecationWarning, match="Timeouts") as seen:
        assert fleet.Patience is fleet.Timeouts
    assert [w.filename for w in seen] == [__file__]
    with pytest.raises(AttributeError, match="no attribute 'Impatience'"):
        fleet.Impatience  # noqa: B018
