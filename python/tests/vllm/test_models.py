# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that are served most: which of them ours schedules, and the page that says so."""

from __future__ import annotations

import models


def test_there_are_forty() -> None:
    assert len(models.models) == len({m.name for m in models.models}) == 40


def test_the_page_says_how_each_is_scheduled() -> None:
    text = models.page.read_text()
    assert text == models.with_table(text), "python python/tests/vllm/models.py --write"


def test_how_many_are() -> None:
    """The number goes up."""
    assert sum(map(models.is_scheduled, models.models)) == 40


def test_states_are_not_in_the_way() -> None:
    """With prefix caching and without."""
    for m in models.models:
        if any(kind is models.state for kind, _ in m.layers):
            assert models.why_not(m) == models.why_not(m, caching=False) == []


def test_the_hybrid_manager_is_not_in_the_way() -> None:
    """No model needs `--disable-hybrid-kv-cache-manager` any more."""
    for m in models.models:
        if not any(kind in (models.state, models.compressed_indexer) for kind, _ in m.layers):
            assert models.why_not(m) == models.why_not(m, hybrid=False) == []
