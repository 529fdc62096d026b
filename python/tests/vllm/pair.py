# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two engines over stub runners: one computes prompts, the other one goes on with them."""

from __future__ import annotations

import random
from typing import Any

import connector
import images
import stub
from vllm.config import KVTransferConfig
from vllm.v1.engine import FinishReason

from tessera.vllm import _api as api


def engine(
    name: str, tessera: dict[str, Any] | None = None, policy: str = "recompute", sees: bool = False, **more: Any
) -> Any:
    """A scheduler with a connector; vLLM's own without `tessera`. `sees`: of a model with images."""
    made = (images.config if sees else stub.config)(tessera=tessera, **more)
    made.kv_transfer_config = KVTransferConfig(
        kv_connector="NixlConnector",
        kv_connector_module_path="connector",
        kv_role="kv_both",
        engine_id=name,
        kv_load_failure_policy=policy,
    )
    return made


class Pair:
    """An engine that computes prompts and one that goes on, with requests of their own beside."""

    def __init__(
        self,
        seed: int,
        tessera: dict[str, Any] | None,
        blocks: int = 60,
        failing: float = 0,
        in_flight: int = 1,
        stages: int = 1,
        windows: tuple[int, ...] = (0,),
        **more: Any,
    ):
        workers: dict[str, connector.Worker] = {}
        self.rng = random.Random(seed)
        self.engines = {}
        self.workers = workers
        self.overlapped = 0
        for name in ("P", "D"):
            made = engine(name, tessera, async_scheduling=in_flight == 2, stages=stages, **more)
            own = stub.OwnAsyncScheduler if in_flight == 2 else stub.OwnScheduler
            self.in_flight = api.plans_in_flight(made)
            memory = stub.memory(blocks, windows)
            s = stub.scheduler(stub.Scheduler if tessera is not None else own, made, blocks, kv=memory)
            places = more.get("max_num_seqs", 24)
            kind = images.Runner if more.get("sees") else stub.Runner
            rest = {
                "places": places,
                "windows": windows,
                "stages": stages,
                "discards": self.in_flight > 1,
                "drafts": more.get("drafts", 0),
                "drafter": more.get("drafter", "").removeprefix("ngram"),
            }
            runner = kind(blocks, more.get("second", False), **rest)
            self.engines[name] = (s, connector.Worker(name, runner, workers, seed, failing))
        self.got: dict[str, list[int]] = {}
        self.reasons: dict[str, Any] = {}
        self.aborted: set[str] = set()
        self.preempted = 0
        self.cached = 0

    def add(
        self, name: str, request_id: str, prompt: Any, params: Any, transfer: Any, salt: Any = None, sees: Any = ()
    ) -> None:
        r = stub.request(request_id, prompt, params, salt=salt, mm_features=list(sees))
        r.kv_transfer_params = transfer
        self.got[request_id] = []
        self.engines[name][0].add_request(r)

    def step(self, name: str) -> list[Any]:
        """A step of one engine: the outputs that are the last of their requests."""
        s, worker = self.engines[name]
        ended: list[Any] = []
        if s.has_requests() or not worker.launched:
            plan = s.schedule()
            self.preempted += len(plan.preempted_req_ids or ())
            self.overlapped += bool(plan.total_num_scheduled_tokens and worker.launched)
            self.cached += sum(n.num_computed_tokens for n in plan.scheduled_new_reqs)
            worker.launch(plan)
        if self.rng.random() < 0.05 and s.requests and self.aborts:
            victim = self.rng.choice(list(s.requests))
            s.finish_requests(victim, stub.RequestStatus.FINISHED_ABORTED)
            self.aborted.add(victim)
        if len(worker.launched) < self.in_flight and s.has_requests():
            return []
        plan, ran = worker.finish()
        for outputs in s.update_from_output(plan, ran).values():
            for o in outputs.outputs:
                self.got[o.request_id] += o.new_token_ids
                if o.finish_reason is not None:
                    self.reasons[o.request_id] = o.finish_reason
                    ended.append(o)
        if worker.runner.drafts and self.in_flight == 1 and plan.total_num_scheduled_tokens:
            s.update_draft_token_ids(worker.runner.take_draft_token_ids())
        return ended

    def serve(self, load: stub.Load, aborts: bool, forgets: float = 0) -> None:
        """Two of three prompts are computed by P, and D goes on with them; the others come to D, or P, alone."""
        self.aborts = aborts
        asked, forgotten = {}, []
        arrivals, features = load.requests(), getattr(load, "features", {})
        for i, (request_id, prompt, params, _, salt) in enumerate(arrivals):
            mine = features.get(request_id, ())
            asked[request_id] = (prompt, params, salt, mine)
            if i % 3:
                one = stub.SamplingParams(temperature=0, max_tokens=1)
                self.add("P", f"{request_id} at P", prompt, one, {"do_remote_decode": True}, salt, mine)
            else:
                self.add("D" if i % 2 else "P", request_id, prompt, params, None, salt, mine)
        steps = 0
        while any(s.has_requests() or worker.launched for s, worker in self.engines.values()):
            for o in self.step("P"):
                request_id = o.request_id.removesuffix(" at P")
                if request_id == o.request_id:
                    continue
                prompt, params, salt, mine = asked[request_id]
                assert o.kv_transfer_params, "it says where its KV is"
                if self.rng.random() < forgets:
                    forgotten.append(o.request_id)  # no peer comes, and some time later it is given up
                    continue
                self.add("D", request_id, prompt, params, dict(o.kv_transfer_params), salt, mine)
            self.step("D")
            for request_id in [name for name in forgotten if name in self.workers["P"].kept]:
                forgotten.remove(request_id)
                self.workers["P"].expire(request_id)
            steps += 1
            assert steps < 20_000, "it does not come to an end"
        for request_id, (prompt, params, _, mine) in asked.items():
            if request_id not in self.got:
                continue
            expected = stub.answer(images.seen(prompt, mine), params)
            if request_id in self.aborted:
                expected = expected[: len(self.got[request_id])]
            elif self.reasons[request_id] == FinishReason.ERROR:
                assert not self.got[request_id]
                continue
            assert self.got[request_id] == expected, request_id
        for s, worker in self.engines.values():
            assert not s.requests and not worker.kept and not worker.pulling
            assert s.get_kv_cache_usage() == 0 and s.get_request_counts() == (0, 0)
