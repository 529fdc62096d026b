# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV between engines for models with windows or several groups of KV blocks, and for pipelines."""

from __future__ import annotations

from typing import Any

import pytest
import stub
from pair import Pair
from test_connectors import Served
from test_transfers import flights
from vllm.v1.engine import FinishReason

#: A window beside full attention, four groups, a window alone, and chunks.
models = {"window": (0, 40), "four": (0, 40, 0, 24), "alone": (40,), "chunks": (0, -64), "odd": (0, 33)}

#: So many blocks that some requests are preempted; "all": of full attention alone.
tight = {"window": 80, "four": 130, "alone": 50, "chunks": 80, "odd": 80, "all": 60}


def pair_of(name: str, seed: int, tessera: Any = None, blocks: int = 150, **more: Any) -> Pair:
    return Pair(seed, {} if tessera is None else tessera, blocks, windows=models[name], **more)


@flights
@pytest.mark.parametrize("aborts", [False, True], ids=["calm", "aborts"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("policy", ["fcfs", "pascal"])
@pytest.mark.parametrize("name", models)
def test_tokens(name: str, policy: str, caching: bool, aborts: bool, in_flight: int) -> None:
    tessera = {"policy": policy, **({"quantum": 16} if policy == "pascal" else {})}
    pair = pair_of(name, len(name), tessera, tight[name], caching=caching, in_flight=in_flight)
    assert all(type(s) is stub.Scheduler for s, _ in pair.engines.values())
    pair.serve(stub.Load(seed=len(name), count=150), aborts, forgets=0.1)
    # Else it proves less than it says.
    assert pair.workers["D"].pulled > 100
    assert pair.preempted > 0 and (pair.overlapped > 100 or in_flight == 1)
    assert bool(pair.aborted) == aborts
    assert not caching or pair.cached > 0


@flights
@pytest.mark.parametrize("policy", ["recompute", "fail"])
@pytest.mark.parametrize("name", models)
def test_kv_that_does_not_come(name: str, policy: str, in_flight: int) -> None:
    """With several groups vLLM is told of the request: all of it is computed here, or it fails."""
    pair = pair_of(name, 3, failing=0.3, policy=policy, in_flight=in_flight)
    pair.serve(stub.Load(seed=3, count=90), aborts=False)
    assert pair.workers["D"].failed > 3
    failed = [request_id for request_id, reason in pair.reasons.items() if reason == FinishReason.ERROR]
    assert bool(failed) == (policy == "fail")


class Beside(stub.Load):
    """When the KV of a prompt has come, vLLM's own scheduler computes the last token. It does so with the window of the
    token behind that: one block may be missing. These prompts are left out."""

    def requests(self) -> Any:
        return [arrival for arrival in super().requests() if len(arrival[1]) % stub.block_size != 7]


@pytest.mark.parametrize("name", ["window", "four"])
def test_beside_vllm(name: str) -> None:
    """The connector is one that vLLM's own scheduler gets along with, and both say the same."""
    pairs = [Pair(7, tessera, 150, windows=models[name]) for tessera in (None, {})]
    for pair in pairs:
        pair.serve(Beside(seed=7, count=90), aborts=False)
        assert pair.workers["D"].pulled > 100
    assert pairs[0].got == pairs[1].got
    assert pairs[0].reasons == pairs[1].reasons


def test_a_window_takes_what_it_looks_at_and_no_more() -> None:
    """A window of 40 pulls three blocks of a prompt of 200 tokens, where full attention pulls 13."""
    pair = pair_of("window", 1)
    pair.aborts = False
    one = stub.SamplingParams(temperature=0, max_tokens=1)
    prompt = [5 + i % 50 for i in range(200)]
    pair.add("P", "a", prompt, one, {"do_remote_decode": True})
    ended: list[Any] = []
    while not ended:
        ended = pair.step("P")
    pair.add("D", "a", prompt, stub.SamplingParams(temperature=0, max_tokens=5), ended[0].kv_transfer_params)
    s, worker = pair.engines["D"]
    plan = s.schedule()
    groups = plan.kv_connector_metadata.pull["a"][0]
    assert [len(ids) for ids in groups] == [13, 3] and 0 not in groups[1]
    # A block more for what comes next, at most.
    assert s.get_kv_cache_usage() * 150 <= 13 + 3 + 2
    worker.launch(plan)
    s.update_from_output(*worker.finish())
    while s.has_requests():
        pair.step("D")
        pair.step("P")
    assert pair.got["a"] == stub.answer(prompt, stub.SamplingParams(temperature=0, max_tokens=5))


@flights
@pytest.mark.parametrize("name", models)
def test_all_that_the_last_token_looks_at_is_handed_over(name: str, in_flight: int) -> None:
    """Also where the window has passed some of it, for the token behind that."""
    for length in (63, 64, 65, 71, 72, 80, 96, 97, 128, 151, 159):
        pair = pair_of(name, 1, in_flight=in_flight)
        pair.aborts = False
        prompt = [5 + i % 50 for i in range(length)]
        pair.add("P", "a", prompt, stub.SamplingParams(temperature=0, max_tokens=1), {"do_remote_decode": True})
        ended: list[Any] = []
        while not ended:
            ended = pair.step("P")
        for ids, window in zip(ended[0].kv_transfer_params["remote_block_ids"], models[name], strict=True):
            first = 0 if not window else (length - 1) // -window * -window if window < 0 else max(length - window, 0)
            assert 0 not in ids[first // stub.block_size - -(-length // stub.block_size) :]


@pytest.mark.parametrize(("name", "there"), [("chunks", [[1, 2, 3, 4], [0] * 4]), ("alone", [[0, 0, 4]])])
def test_a_peer_without_the_blocks_that_are_needed(name: str, there: list[list[int]]) -> None:
    """As vLLM's own scheduler hands over what it has passed: 0 stands for such blocks. They are not read."""
    pair = pair_of(name, 1)
    pair.aborts = False
    prompt = [5 + i % 50 for i in range(64)]
    params: dict[str, Any] = {"do_remote_prefill": True, "remote_engine_id": "P", "remote_request_id": "a at P"}
    params["remote_block_ids"] = there
    pair.add("D", "a", prompt, stub.SamplingParams(temperature=0, max_tokens=5), params)
    s, _ = pair.engines["D"]
    plan = s.schedule()
    assert plan.num_scheduled_tokens == {"a": 64} and plan.kv_connector_metadata.pull["a"][0] == []


@flights
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("name", ["window", "four", "alone", "chunks"])
def test_offloading(name: str, caching: bool, in_flight: int) -> None:
    """vLLM's own OffloadingConnector, both sides of it."""
    more: dict[str, Any] = {"caching": caching, "aborts": caching, "in_flight": in_flight, "windows": models[name]}
    run = Served({}, "OffloadingConnector", {"cpu_bytes_to_use": 1 << 22}, len(name), tight[name], **more)
    assert run.worker.host.stored > 100 and run.worker.host.loaded > 100 and run.external > 1000
    assert run.preempted > 0 or name == "alone"  # a window alone lacks few blocks
    scheduler = run.s.connector.connector_scheduler
    assert not scheduler._jobs and not scheduler._req_status


@pytest.mark.parametrize("name", ["window", "four"])
def test_offloading_beside_vllm(name: str) -> None:
    """Also with a store that is too small. Common beginnings are stored before a window's blocks of them go."""
    for size in (1 << 20, 1 << 22):
        more: dict[str, Any] = {"windows": models[name], "blocks": 150}
        runs = [Served(t, "OffloadingConnector", {"cpu_bytes_to_use": size}, 3, **more) for t in (None, {})]
        assert runs[0].got == runs[1].got
        assert runs[0].reasons == runs[1].reasons
        assert runs[1].external > 0.5 * runs[0].external > 0


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("failing", [0, 0.3], ids=["", "failing"])
@pytest.mark.parametrize("name", [*models, "all"])
def test_pipelines(name: str, failing: float, second: bool, stages: int) -> None:
    """As many steps in flight as stages; one more with async scheduling, which vLLM has for its second runner alone."""
    place = [*models, "all"].index(name) + stages
    more: dict[str, Any] = {"second": second, "stages": stages, "in_flight": 1 + (second and place % 2)}
    pair = Pair(place, {}, tight[name], failing=failing, windows=models.get(name, (0,)), **more)
    assert all(type(s) is stub.Scheduler for s, _ in pair.engines.values())
    pair.serve(stub.Load(seed=place, count=80), aborts=place % 2 == 0, forgets=0.1)
    assert pair.workers["D"].pulled > 50 and pair.overlapped > 100
    assert bool(pair.workers["D"].failed) == bool(failing)


@pytest.mark.parametrize(("name", "stages"), [("StoreConnector", 2), ("StoreConnector", 3), ("OffloadingConnector", 2)])
def test_stores_and_pipelines(name: str, stages: int) -> None:
    for second in (False, True):
        options = {"cpu_bytes_to_use": 1 << 22} if name == "OffloadingConnector" else {"later": 0.5, "unsure": 0.3}
        run = Served({}, name, options, stages, second=second, stages=stages, aborts=second)
        assert run.external > 500 and run.preempted > 0 and run.overlapped > 100
