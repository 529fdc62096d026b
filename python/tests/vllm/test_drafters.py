# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drafters that keep KV of their own beside the model's: EAGLE and MTP, draft models, DFlash. They write behind the
tokens of a step, and what EAGLE's layers keep of a token depends on the next one."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import stub
from steps import add_with_grammars
from test_async import run
from test_drafts import Choosy, most, two_runners
from test_stub import Run, check, drive, one_or_two, policies
from vllm import SamplingParams

from tessera.vllm import _api as api
from tessera.vllm import support

#: By vLLM's names, of which `eagle3` and `mtp` are treated as `eagle`; and MTP of several modules.
drafters = ["eagle", "draft_model", "dflash", "modules"]
#: What a token's layers look at, as test_groups.py's, for each group so many blocks, and the tokens of its blocks.
layers = {
    "all": ((0,), 60),
    "window": ((40,), 40),
    "window and all": ((40, 0), 60),
    "chunks and all": ((-48, 0), 60),
    "five windows and all": ((40, 40, 40, 40, 40, 0), 60),
    "DeepSeek-V4, a quarter": ((32, 32, 0, 8, 32), 60, 16, 16, 64, 4, 8),
}


def load_of(seed: int, kind: str = "all", **more: Any) -> stub.Load:
    """Prompts that begin with the same whole blocks, and go on differently."""
    _, _, *sizes = layers[kind]
    shape = {"beginning": 2 * math.lcm(*sizes), "hashed": math.gcd(*sizes)} if sizes else {"beginning": 64}
    return stub.Load(seed=seed, **shape, **more)


def driven(
    cls: type, own: Any, load: stub.Load, drafter: str, kind: str, troubled: bool, in_flight: int, **more: Any
) -> Run:
    windows, blocks, *sizes = layers[kind]
    blocks *= len(windows)
    second = more.pop("second", False)
    asynchronous = in_flight == 2
    made = stub.config(tessera=own, second=second, drafts=most, drafter=drafter, async_scheduling=asynchronous, **more)
    # As vLLM sizes its steps: a drafter's places do not come out of their tokens.
    made.scheduler_config.max_num_batched_tokens += made.scheduler_config.max_num_seqs * api.slots_per_request(made)
    kv = stub.memory(blocks, windows, sizes=tuple(sizes))
    s = stub.scheduler(cls, made, blocks, kv=kv, include_finished_set=True)
    assert type(s) is cls
    runner = stub.Runner(blocks, second, drafts=most, windows=windows, drafter=drafter, sizes=tuple(sizes))
    result = drive(s, runner, load, troubled, in_flight)
    check(result, load)
    # vLLM 0.32 may find a block with the same tokens and another token behind it, where it is not the last that is
    # found.
    assert runner.stale == 0 or cls is not stub.Scheduler
    assert runner.tried > 50 and 0.2 * runner.tried < runner.accepted < 0.9 * runner.tried
    return result


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("drafter", drafters)
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, drafter: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name) + drafters.index(drafter)
    more = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
    own = {"policy": name.split()[0], **policies[name]}
    for caching, second in product((False, True), repeat=2):
        if (caching + second + place + troubled) % 2:
            continue
        kind = list(layers)[(place + caching) % len(layers)]
        if drafter == "modules" and "chunks" in kind:
            kind = "all"  # handed back, below
        load = load_of(place, kind, priorities=name == "priority", tenants=name == "vtc")
        result = driven(
            stub.Scheduler, own, load, drafter, kind, troubled, in_flight, caching=caching, second=second, **more
        )
        assert result.preempted > 0 or kind != "all"
        assert (result.overlapped > result.steps / 2) == (in_flight == 2)
        assert not caching or result.hits > 0 or kind != "all"
        assert not troubled or (result.aborted and result.resets)


@one_or_two
@pytest.mark.parametrize("kind", layers)
@pytest.mark.parametrize("drafter", drafters)
def test_beside_vllm(drafter: str, kind: str, in_flight: int) -> None:
    """vLLM's own schedulers pass with this drafter, and ours says the same in about as many steps."""
    if drafter != "draft_model" and "chunks" in kind:
        pytest.skip("vLLM's own has no prefix caching of chunks with such a drafter")
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = [
        driven(cls, own, load_of(3, kind), drafter, kind, False, in_flight)
        for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
    ]
    assert runs[0].got == runs[1].got
    assert runs[0].reasons == runs[1].reasons
    assert runs[1].steps < 1.2 * runs[0].steps
    # The last block that is known is computed anew there; here the token behind it tells.
    assert runs[0].hits > 0 and (kind != "all" or runs[1].hits > 0.8 * runs[0].hits)


@one_or_two
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "vLLM's own"])
def test_so_many_drafts_as_the_batch_is_large(theirs: bool, in_flight: int) -> None:
    made = stub.config(tessera=None if theirs else {}, drafts=most, drafter="eagle", async_scheduling=in_flight == 2)
    ranges = [(1, 4, 3), (5, 12, 1), (13, 24, 0)]
    object.__setattr__(made.speculative_config, "num_speculative_tokens_per_batch_size", ranges)
    own = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    s = stub.scheduler(own if theirs else stub.Scheduler, made, 200, include_finished_set=True)
    plan, seen = s.schedule, set()

    def observed(**named: Any) -> Any:
        step = plan(**named)
        n = len(step.num_scheduled_tokens)
        if n:
            expected = next(k for first, last, k in ranges if first <= n <= last)
            assert step.num_spec_tokens_to_schedule == expected
            seen.add(expected)
        return step

    s.schedule = observed
    runner = stub.Runner(200, drafts=most, drafter="eagle")
    check(drive(s, runner, load_of(3), False, in_flight), load_of(3))
    assert runner.stale == 0 or theirs
    assert seen == {0, 1, 3} and runner.accepted > 20


@one_or_two
@two_runners
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "vLLM's own"])
def test_a_grammar_refuses_drafts(theirs: bool, second: bool, in_flight: int) -> None:
    runner = stub.Runner(60, second, drafts=most, drafter="eagle")
    own = {"policy": "fcfs"}
    made = stub.config(
        tessera=None if theirs else own, second=second, drafts=most, drafter="eagle", async_scheduling=in_flight == 2
    )
    cls = stub.Scheduler if not theirs else stub.OwnAsyncScheduler if in_flight == 2 else stub.OwnScheduler
    s = stub.scheduler(cls, made, blocks=60)
    grammars = s.structured_output_manager = Choosy(runner)
    load = stub.Load(seed=11, count=60).requests()
    structured = add_with_grammars(s, load)
    got, _ = run(s, runner, in_flight)
    for request_id, prompt, params, _, _ in load:
        assert got[request_id] == stub.answer(prompt, params), request_id
    assert set(grammars.accepted) == structured and grammars.refused > 20


@pytest.mark.parametrize("without", ["hash_ahead", "slots_ahead"])
def test_what_a_drafter_lacks_is_seen(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks can fail: blocks that are found whatever comes behind them, and no room for guesses."""
    monkeypatch.setattr(api, without, lambda config: 0)
    with pytest.raises((AssertionError, IndexError)):
        driven(stub.Scheduler, {}, load_of(3), "eagle", "all", False, 1)


def test_places_of_a_drafter_come_out_of_the_step() -> None:
    made = stub.config(tessera={}, drafts=most, drafter="draft_model")
    s = stub.scheduler(stub.Scheduler, made, 60)
    for i in range(30):
        s.add_request(stub.request(str(i), [5, i], SamplingParams(max_tokens=60)))
        if i in (0, 1, 5, 29):
            assert s.places_taken() == min(i + 1, made.scheduler_config.max_num_seqs)
    s.add_request(stub.request("long", [7] * 400, SamplingParams(max_tokens=60)))
    assert sum(s.schedule().num_scheduled_tokens.values()) <= 128 - 24


def test_modules_that_are_handed_back() -> None:
    """They compute their last tokens anew, which chunks have given up by then."""
    reason = "MTP of several modules with chunks or states"
    made = stub.config(drafts=most, drafter="modules")
    for windows, why in (((40, 0), []), ((0,), []), ((-48, 0), [reason])):
        assert list(support.why_not_memory(stub.memory(60, windows), stub.block_size, made)) == why
    assert not list(support.why_not_memory(stub.memory(60, (-48, 0)), stub.block_size, stub.config(drafts=most)))
