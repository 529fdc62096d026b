# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV connectors with a store beside the engine: within a step, later, or not yet known."""

from __future__ import annotations

import random
from typing import Any

import images
import pytest
import store
import stub
from vllm.config import KVTransferConfig
from vllm.v1.engine import FinishReason
from vllm.v1.outputs import DraftTokenIds

from tessera.vllm import _api as api


def connected(made: Any, name: str, options: dict[str, Any], policy: str = "recompute") -> Any:
    made.kv_transfer_config = KVTransferConfig(
        kv_connector=name,
        kv_connector_module_path="store" if name == "StoreConnector" else None,
        kv_role="kv_both",
        engine_id="one",
        kv_load_failure_policy=policy,
        kv_connector_extra_config=options,
    )
    if name == "StoreConnector":
        made.scheduler_config.disable_hybrid_kv_cache_manager = True  # as vLLM does for such a connector
    return made


class Served:
    """A load on one engine with a connector, twice: what the first time has left is found the second time."""

    def __init__(
        self,
        tessera: dict[str, Any] | None,
        name: str = "StoreConnector",
        options: dict[str, Any] | None = None,
        seed: int = 1,
        blocks: int = 60,
        failing: float = 0,
        policy: str = "recompute",
        aborts: bool = False,
        count: int = 60,
        in_flight: int = 1,
        sees: bool = False,
        windows: tuple[int, ...] = (0,),
        stages: int = 1,
        **more: Any,
    ) -> None:
        store.StoreConnector.stores.clear()
        kind = images.config if sees else stub.config
        made = kind(tessera=tessera, async_scheduling=in_flight == 2, stages=stages, **more)
        made = connected(made, name, dict(options or {}), policy)
        own = stub.OwnAsyncScheduler if in_flight == 2 else stub.OwnScheduler
        cls = own if tessera is None else stub.Scheduler
        self.in_flight = in_flight = api.plans_in_flight(made)
        memory = stub.memory(blocks, windows)
        self.s = s = stub.scheduler(cls, made, blocks, log_stats=True, include_finished_set=True, kv=memory)
        assert type(s) is cls
        self.runner = (images.Runner if sees else stub.Runner)(
            blocks,
            more.get("second", False),
            windows=windows,
            stages=stages,
            drafts=more.get("drafts", 0),
            drafter=more.get("drafter", "").removeprefix("ngram"),
            discards=failing > 0 or in_flight > 1,
        )
        if name == "OffloadingConnector":
            self.worker: Any = store.Offload(self.runner, seed)
        else:
            self.worker = store.StoreWorker(self.runner, store.StoreConnector.stores[""], seed, failing)
        self.rng = random.Random(seed)
        self.got: dict[str, list[int]] = {}
        self.reasons: dict[str, Any] = {}
        self.aborted: set[str] = set()
        self.preempted = 0
        self.overlapped = self.held_back = (
            0  #: steps that were planned while others ran, with and without anything in them
        )
        self.external = 0
        self.told: list[Any] = []  #: of the connector's cache
        load = (images.Load if sees else stub.Load)(seed=seed, count=count)
        for turn in range(2):
            if turn:
                while not s.reset_prefix_cache():
                    self.step()
            self.serve(load, turn, aborts)

    def step(self) -> None:
        s = self.s
        if s.has_requests() or not self.worker.launched:
            plan = s.schedule()
            self.preempted += len(plan.preempted_req_ids or ())
            self.overlapped += bool(plan.total_num_scheduled_tokens and self.worker.launched)
            self.held_back += bool(s.requests and self.worker.launched and not plan.total_num_scheduled_tokens)
            self.worker.launch(plan)
            if len(self.worker.launched) < self.in_flight and s.has_requests():
                return
        plan, ran = self.worker.finish()
        for outputs in s.update_from_output(plan, ran).values():
            if outputs.scheduler_stats is not None:
                self.told.append(outputs.scheduler_stats.connector_prefix_cache_stats)
            for o in outputs.outputs:
                self.got[o.request_id] += o.new_token_ids
                if o.prefill_stats is not None:
                    self.external += o.prefill_stats.num_external_cached_tokens
                if o.finish_reason is not None:
                    self.reasons[o.request_id] = o.finish_reason
        if self.runner.drafts and self.in_flight == 1 and plan.total_num_scheduled_tokens:
            s.update_draft_token_ids(self.runner.take_draft_token_ids())

    def serve(self, load: stub.Load, turn: int, aborts: bool) -> None:
        s, asked, steps = self.s, {}, 0
        coming, features = load.requests(), getattr(load, "features", {})
        while coming or s.has_requests() or self.worker.launched:
            for request_id, prompt, params, _, salt in coming[:2]:
                mine = {"mm_features": list(features[request_id])} if features else {}
                asked[f"{turn}-{request_id}"] = (images.seen(prompt, features.get(request_id, [])), params)
                self.got[f"{turn}-{request_id}"] = []
                s.add_request(stub.request(f"{turn}-{request_id}", prompt, params, salt=salt, **mine))
            coming = coming[2:]
            if aborts and self.rng.random() < 0.1 and s.requests:
                victim = self.rng.choice(list(s.requests))
                s.finish_requests(victim, stub.RequestStatus.FINISHED_ABORTED)
                self.aborted.add(victim)
            self.step()
            steps += 1
            assert steps < 20_000, "it does not come to an end"
        for request_id, (prompt, params) in asked.items():
            expected = stub.answer(prompt, params)
            if request_id in self.aborted:
                expected = expected[: len(self.got[request_id])]
            elif self.reasons[request_id] == FinishReason.ERROR:
                continue
            assert self.got[request_id] == expected, request_id
        assert not s.requests and s.get_kv_cache_usage() == 0 and s.get_request_counts() == (0, 0)


policies = ["fcfs", "pars"]
within, later, both = {}, {"later": 1.0}, {"later": 0.5, "unsure": 0.3}
modes = pytest.mark.parametrize("options", [within, later, both], ids=["within a step", "later", "both, unsure"])
runners = pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
flights = pytest.mark.parametrize("in_flight", [1, 2], ids=["", "two in flight"])


@modes
@runners
@flights
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("policy", policies)
def test_tokens(policy: str, caching: bool, second: bool, options: dict[str, Any], in_flight: int) -> None:
    run = Served(
        {"policy": policy},
        options=options,
        seed=policies.index(policy),
        caching=caching,
        second=second,
        aborts=policy == "pars",
        in_flight=in_flight,
    )
    connector = run.s.connector
    # Else it proves less than it says.
    assert run.worker.loaded > 100 and run.worker.saved > 100 and run.external > 1000
    assert run.preempted > 0 and (run.overlapped > 100 or in_flight == 1)
    assert bool(connector.nones) == bool(options.get("unsure"))
    assert not connector.known and not connector.loading


@modes
@flights
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
def test_beside_vllm(caching: bool, options: dict[str, Any], in_flight: int) -> None:
    """The connector is one that vLLM's own scheduler gets along with, and both say the same."""
    runs = [Served(tessera, options=options, seed=7, caching=caching, in_flight=in_flight) for tessera in (None, {})]
    for run in runs:
        assert run.worker.loaded > 100
    assert runs[0].got == runs[1].got
    assert runs[0].reasons == runs[1].reasons


@runners
@flights
@pytest.mark.parametrize("policy", ["recompute", "fail"])
@pytest.mark.parametrize("options", [within, later], ids=["within a step", "later"])
@pytest.mark.parametrize("seed", range(2))
def test_kv_that_does_not_come(seed: int, options: dict[str, Any], policy: str, second: bool, in_flight: int) -> None:
    run = Served({}, options=options, seed=seed, failing=0.3, policy=policy, second=second, in_flight=in_flight)
    assert run.worker.failed > 3
    failed = [name for name, reason in run.reasons.items() if reason == FinishReason.ERROR]
    assert bool(failed) == (policy == "fail")
    assert not any(run.got[name] for name in failed if name.startswith("0")) or policy == "fail"


@runners
@flights
@pytest.mark.parametrize("prompts_alone", [False, True], ids=["all", "prompts"])
@pytest.mark.parametrize("policy", policies)
def test_offloading(policy: str, prompts_alone: bool, second: bool, in_flight: int) -> None:
    """vLLM's own OffloadingConnector, both sides of it, over a runner that checks all KV."""
    run = Served(
        {"policy": policy},
        name="OffloadingConnector",
        options={"cpu_bytes_to_use": 1 << 20, "offload_prompt_only": prompts_alone},
        seed=policies.index(policy),
        second=second,
        aborts=policy == "pars",
        in_flight=in_flight,
    )
    assert run.worker.host.stored > 100 and run.worker.host.loaded > 50 and run.external > 500
    assert run.preempted > 0
    scheduler = run.s.connector.connector_scheduler
    assert not scheduler._jobs and not scheduler._req_status


@flights
def test_offloading_beside_vllm(in_flight: int) -> None:
    more = {"name": "OffloadingConnector", "options": {"cpu_bytes_to_use": 1 << 20}, "seed": 3, "in_flight": in_flight}
    runs = [Served(tessera, **more) for tessera in (None, {})]
    for run in runs:
        assert run.worker.host.loaded > 50
    assert runs[0].got == runs[1].got
    assert runs[0].reasons == runs[1].reasons


drafters = ["ngram", "eagle", "draft_model", "dflash", "modules"]


@flights
@pytest.mark.parametrize("drafter", drafters)
def test_drafts(drafter: str, in_flight: int) -> None:
    place = drafters.index(drafter) + in_flight
    for failing, second in ((0, place % 2 == 0), (0.3, place % 2 == 1)):
        options = (within, later, both)[(place + second) % 3]
        more = {"caching": place % 4 < 2, "second": second, "aborts": second, "in_flight": in_flight}
        run = Served({}, options=options, seed=place, failing=failing, drafts=3, drafter=drafter, **more)
        assert run.worker.loaded > 50 and run.worker.saved > 50 and run.preempted > 0
        assert run.runner.tried > 200 and run.runner.accepted > 50
        assert bool(run.worker.failed) == bool(failing)


@flights
@pytest.mark.parametrize("drafter", ["ngram", "eagle", "modules"])
def test_offloading_drafts(drafter: str, in_flight: int) -> None:
    """vLLM's own OffloadingConnector beside drafts that are refused: no block with their KV is stored."""
    for aborts in (False, True):
        run = Served(
            {},
            name="OffloadingConnector",
            options={"cpu_bytes_to_use": 1 << 20},
            seed=drafters.index(drafter) + in_flight,
            second=aborts == (in_flight == 1),
            aborts=aborts,
            in_flight=in_flight,
            drafts=3,
            drafter=drafter,
        )
        assert run.worker.host.stored > 50 and run.worker.host.loaded > 50
        assert run.runner.tried > 200 and run.runner.accepted > 50


@flights
@pytest.mark.parametrize("name", ["StoreConnector", "OffloadingConnector"])
def test_drafts_beside_vllm(name: str, in_flight: int) -> None:
    options = {"cpu_bytes_to_use": 1 << 20} if name == "OffloadingConnector" else both
    more = {"name": name, "options": options, "seed": 3, "in_flight": in_flight, "drafts": 3, "drafter": "eagle"}
    runs = [Served(tessera, **more) for tessera in (None, {})]
    assert runs[0].got == runs[1].got
    assert runs[0].reasons == runs[1].reasons


def test_an_aborted_request_has_no_kv_of_refused_drafts() -> None:
    """A store may take what is computed: not the place of the last token, which a draft was in."""
    for tessera in (None, {}):
        made = connected(stub.config(tessera=tessera, drafts=3), "StoreConnector", {})
        s = stub.scheduler(stub.OwnScheduler if tessera is None else stub.Scheduler, made, 60)
        runner, r = stub.Runner(60, drafts=3), stub.request("a", [5] * 20, stub.SamplingParams(max_tokens=9))
        s.add_request(r)
        s.update_from_output(step := s.schedule(), runner.run(step))
        runner.guesses["a"] = [1, 1, 1]  # which it never samples
        s.update_draft_token_ids(DraftTokenIds(["a"], [[1, 1, 1]]))
        step = s.schedule()
        assert step.num_scheduled_tokens == {"a": 4}
        s.update_from_output(step, runner.run(step))
        s.finish_requests("a", stub.RequestStatus.FINISHED_ABORTED)
        assert (r.num_tokens, r.num_computed_tokens) == (22, 21)


@modes
@flights
def test_images(options: dict[str, Any], in_flight: int) -> None:
    for failing, caching in ((0, in_flight == 1), (0.3, in_flight == 2)):
        more = {"failing": failing, "aborts": caching, "caching": caching, "second": caching}
        run = Served({}, options=options, seed=in_flight, in_flight=in_flight, sees=True, **more)
        assert run.worker.loaded > 50 and run.worker.saved > 50 and run.runner.encoded > 10
        assert bool(run.worker.failed) == bool(failing)


@flights
@pytest.mark.parametrize("drafter", ["", "eagle"])
def test_offloading_images(drafter: str, in_flight: int) -> None:
    more = {"drafts": 3, "drafter": drafter} if drafter else {}
    options = {"cpu_bytes_to_use": 1 << 20}
    run = Served({}, "OffloadingConnector", options, aborts=True, in_flight=in_flight, sees=True, **more)
    assert run.worker.host.stored > 50 and run.worker.host.loaded > 50 and run.runner.encoded > 10


def test_a_wrong_block_is_seen() -> None:
    """The check can fail: a block is loaded from the wrong place, once."""
    load, wrong = store.StoreWorker._load, []

    def with_a_wrong_block(self: Any, blocks: list[tuple[int, Any]]) -> set[int]:
        done = load(self, blocks)
        if not wrong and len(blocks) > 1:
            self.runner.kv[blocks[0][0]] = list(self.runner.kv[blocks[1][0]])
            wrong.append(blocks[0])
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.StoreWorker, "_load", with_a_wrong_block)
        with pytest.raises(AssertionError):
            Served({}, seed=5)
    assert wrong
