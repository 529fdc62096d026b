# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV between engines that draft, engines of models with images, and a load that fails beside nothing."""

from __future__ import annotations

import images
import pytest
import stub
from pair import Pair, engine
from test_connectors import drafters
from test_transfers import beside_each_other, flights, of_a_peer, policies
from vllm.v1.outputs import KVConnectorOutput


@flights
@pytest.mark.parametrize("drafter", drafters)
def test_drafts(drafter: str, in_flight: int) -> None:
    """Both engines draft: KV of the drafter comes with the model's."""
    place = drafters.index(drafter) + in_flight
    for failing, second in ((0.0, place % 2 == 0), (0.3, place % 2 == 1)):
        more = {"drafts": 3, "drafter": drafter, "second": second, "caching": place % 4 < 2, "in_flight": in_flight}
        pair = Pair(place, {"policy": policies[place % 4]}, failing=failing, **more)
        assert all(type(s) is stub.Scheduler for s, _ in pair.engines.values())
        pair.serve(stub.Load(seed=place, count=150, beginning=64), aborts=second, forgets=0.1)
        worker = pair.workers["D"]
        assert worker.pulled > 100 and pair.preempted > 0 and (pair.overlapped > 100 or in_flight == 1)
        assert worker.runner.stale == pair.workers["P"].runner.stale == 0
        assert worker.runner.tried > 200 and worker.runner.accepted > 50
        assert bool(worker.failed) == bool(failing) and bool(pair.aborted) == second


@flights
@pytest.mark.parametrize("drafter", ["ngram", "eagle"])
def test_drafts_beside_vllm(drafter: str, in_flight: int) -> None:
    pairs = [Pair(7, tessera, in_flight=in_flight, drafts=3, drafter=drafter) for tessera in (None, {})]
    for pair in pairs:
        pair.serve(stub.Load(seed=7, count=90, beginning=64), aborts=False)
        assert pair.workers["D"].pulled > 100
    assert pairs[0].got == pairs[1].got
    assert pairs[0].reasons == pairs[1].reasons


@pytest.mark.parametrize("drafter", ["ngram", "eagle"])
def test_it_starts_with_places_for_drafts(drafter: str) -> None:
    """As one with its prompt in the cache, and as under vLLM's own."""
    for two in beside_each_other(drafts=3, drafter=drafter):
        two.add("D", "a", [*range(3, 43)], two.computed("a", [*range(3, 43)]))
        while not (plan := two.step("D")[0]).num_scheduled_tokens:
            pass
        assert plan.num_scheduled_tokens == {"a": 4} and plan.scheduled_spec_decode_tokens == {"a": [-1] * 3}


@flights
@pytest.mark.parametrize("drafter", ["", "eagle", "modules"])
def test_images(drafter: str, in_flight: int) -> None:
    """KV comes for prompts with images: the encoder makes those alone that are in what is left to compute."""
    for failing, second in ((0.0, in_flight == 1), (0.3, in_flight == 2)):
        more = {"drafts": 3, "drafter": drafter} if drafter else {}
        pair = Pair(5, {}, failing=failing, second=second, in_flight=in_flight, sees=True, **more)
        assert all(type(s) is stub.Scheduler for s, _ in pair.engines.values())
        pair.serve(images.Load(seed=5, count=120), aborts=second, forgets=0.1)
        p, d = (pair.workers[name] for name in "PD")
        assert d.pulled > 100 and pair.preempted > 0 and bool(d.failed) == bool(failing)
        assert d.runner.encoded > 10 and (failing or d.runner.encoded < p.runner.encoded)


@flights
def test_images_beside_vllm(in_flight: int) -> None:
    pairs = [Pair(7, tessera, in_flight=in_flight, sees=True) for tessera in (None, {})]
    for pair in pairs:
        for worker in pair.workers.values():
            worker.runner.lenient = True
        pair.serve(images.Load(seed=7, count=90), aborts=False)
        assert pair.workers["D"].pulled > 100
    assert pairs[0].got == pairs[1].got
    assert pairs[0].reasons == pairs[1].reasons


def test_what_has_not_come_is_looked_at_once() -> None:
    """It is told after a step in which nothing runs. What is computed in its place by the next step counts."""
    s, runner = stub.scheduler(stub.Scheduler, engine("D", {}), 60), stub.Runner(60)
    of_a_peer(s, "a", [7] * 100)
    output = runner.run(step := s.schedule())
    (local,), _ = step.kv_connector_metadata.pull["a"]
    output.kv_connector_output = KVConnectorOutput(finished_recving={"a"}, invalid_block_ids={local[0]})
    s.update_from_output(step, output)
    steps = []
    while s.requests:
        step = s.schedule()
        steps.append(step.num_scheduled_tokens)
        s.update_from_output(step, runner.run(step))
    assert steps == [{"a": 100}, *[{"a": 1}] * 4]
