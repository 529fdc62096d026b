# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV connectors that keep KV in a store beside the engine, for stub runners.

`StoreConnector` asks a scheduler for what vLLM's ExampleConnector and OffloadingConnector ask, by choice within a step
or later, and checks what it is told. `Offload` is the worker of vLLM's own OffloadingConnector over a stub runner.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import stub
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
)
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.worker import OffloadingConnectorWorker
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.outputs import KVConnectorOutput

block = stub.block_size


@dataclass
class Told(KVConnectorMetadata):
    """What the worker is to do in a step: (request, block, name of its content), and the tokens that were computed."""

    load: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    later: set[str] = field(default_factory=set)  #: those of these that take longer than the step
    save: list[tuple[int, Any]] = field(default_factory=list)


class StoreConnector(KVConnectorBase_V1):
    """The scheduler's side. Options: `later`: the part of its loads that takes longer than a step. `unsure`: the part
    of its answers that is None. `name`: its store, for connectors that share one."""

    stores: dict[str, dict[Any, list[Any]]] = {}

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        options = vllm_config.kv_transfer_config.kv_connector_extra_config
        self.later: float = options.get("later", 0)
        self.unsure: float = options.get("unsure", 0)
        self.store = self.stores.setdefault(options.get("name", ""), {})
        self.rng = random.Random(options.get("seed", 1))
        self.next = Told()
        self.said: dict[str, tuple[int, int, bool]] = {}
        self.known: dict[str, Any] = {}  #: live requests
        self.blocks: dict[str, list[int]] = {}  #: of those that run
        self.loading: set[str] = set()
        self.asked = self.loads = self.nones = self.resumed = 0

    def on_new_request(self, request: Any) -> None:
        assert request.request_id not in self.known
        self.known[request.request_id] = request

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        assert self.known[request.request_id] is request and request.request_id not in self.loading
        assert num_computed_tokens % block == 0 and request.num_computed_tokens == 0
        assert len(request.block_hashes) == request.num_tokens // block, "all full blocks have names"
        self.asked += 1
        if self.rng.random() < self.unsure:
            self.nones += 1
            return None, False
        first = found = num_computed_tokens // block
        while found < len(request.block_hashes) and request.block_hashes[found] in self.store:
            found += 1
        later = found != first and self.rng.random() < self.later
        tokens = (found - first) * block
        if not later and num_computed_tokens + tokens == request.num_tokens:
            tokens -= 1  # vLLM's scheduler takes no whole sequence within a step
        self.said[request.request_id] = (num_computed_tokens, tokens, later)
        return tokens, later

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        request_id = request.request_id
        (mine,) = blocks.blocks
        here, tokens, later = self.said.pop(request_id, (0, 0, False))
        assert num_external_tokens in (0, tokens)
        if num_external_tokens == 0:
            return
        first, last = here // block, -(-(here + tokens) // block)
        assert len(mine) >= last and len({b.block_id for b in mine}) == len(mine)
        if later:
            assert all(b.block_hash is not None for b in mine[:first])
            assert all(b.block_hash is None for b in mine[first:last]), "these are to be filled"
            self.loading.add(request_id)
            self.next.later.add(request_id)
        self.next.load[request_id] = [(mine[i].block_id, request.block_hashes[i]) for i in range(first, last)]
        self.loads += 1

    def build_connector_meta(self, scheduler_output: Any) -> Told:
        step, told = scheduler_output, self.next
        cached = step.scheduled_cached_reqs
        in_step = set(told.load) - told.later
        assert in_step <= set(step.num_scheduled_tokens)
        assert step.has_sync_kv_loads == bool(in_step)
        for new in step.scheduled_new_reqs:
            self.blocks[new.req_id] = list(new.block_ids[0])
            assert self.known[new.req_id].num_computed_tokens == new.num_computed_tokens
        for request_id, ids, computed in zip(
            cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True
        ):
            assert self.known[request_id].num_computed_tokens == computed
            if request_id in cached.resumed_req_ids:
                self.blocks[request_id] = []
                self.resumed += 1
            if ids is not None:
                self.blocks[request_id] += ids[0]
        for request_id, count in step.num_scheduled_tokens.items():
            request = self.known[request_id]
            state = step.kv_connector_block_state
            assert state is None or state.get_block_ids(request_id) == (self.blocks[request_id],)
            assert request.num_tokens == len(request.all_token_ids), "its tokens are known"
            assert len(request.block_hashes) == request.num_tokens // block
            begin = request.num_computed_tokens
            for i in range(begin // block, min((begin + count) // block, len(request.block_hashes))):
                told.save.append((self.blocks[request_id][i], request.block_hashes[i]))
        self.next = Told()
        return told

    def update_connector_output(self, connector_output: Any) -> None:
        self.loading -= set(connector_output.finished_recving or ())

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        assert self.known.pop(request.request_id) is request, "each ends once"
        assert request.is_finished()
        held = self.blocks.pop(request.request_id, [])
        assert block_ids in ([], held[: len(block_ids)])
        return False, None

    # The worker's side is not this class.
    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None: ...
    def wait_for_layer_load(self, layer_name: str) -> None: ...
    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None: ...
    def wait_for_save(self) -> None: ...


class StoreWorker:
    """Loads before a step or over some steps, and saves after it. A part of the loads fails, from some block on.

    It loads when a step is launched: those before it may still have to run.
    """

    def __init__(self, runner: Any, store: dict[Any, list[Any]], seed: int, failing: float = 0) -> None:
        self.runner = runner
        self.store = store
        self.rng = random.Random(seed)
        self.failing = failing
        self.coming: dict[str, list[Any]] = {}
        self.launched: deque[tuple[Any, set[str], set[int]]] = deque()
        self.loaded = self.saved = self.failed = 0
        self.spoilt = False

    def launch(self, step: Any) -> None:
        told = step.kv_connector_metadata
        invalid: set[int] = set()
        for request_id, blocks in told.load.items():
            if request_id in told.later:
                self.coming[request_id] = [self.rng.randrange(6), blocks]
            else:
                invalid |= self._load(blocks)
        done = set()
        for request_id, job in list(self.coming.items()):
            job[0] -= 1
            if job[0] < 0:
                del self.coming[request_id]
                done.add(request_id)
                invalid |= self._load(job[1])
        self.launched.append((step, done, invalid))

    def finish(self) -> tuple[Any, Any]:
        """Runs the oldest step that was launched. Returns the step, and what came of it."""
        step, done, invalid = self.launched.popleft()
        output = self.runner.run(step)
        for block_id, name in step.kv_connector_metadata.save:
            # Else it may have been computed from what did not come, in this step or in the one before.
            if not invalid and not self.spoilt:
                self.store[name] = self.runner.content(block_id)
                self.saved += 1
        self.spoilt = bool(invalid) and bool(self.launched)
        output.kv_connector_output = KVConnectorOutput(finished_recving=done or None, invalid_block_ids=invalid)
        return step, output

    def _load(self, blocks: list[tuple[int, Any]]) -> set[int]:
        fails_from = len(blocks)
        if self.rng.random() < self.failing:
            fails_from = self.rng.randrange(len(blocks))
            self.failed += 1
        for block_id, name in blocks[:fails_from]:
            self.runner.put(block_id, self.store[name])
            self.loaded += 1
        for block_id, _ in blocks[fails_from:]:
            self.runner.spoil(block_id)
        return {block_id for block_id, _ in blocks[fails_from:]}


class Host(OffloadingWorker):
    """The host's memory, in place of what copies on a GPU. A copy takes some steps, and reads when it is over. What is
    loaded may be written at once."""

    def __init__(self, runner: Any, seed: int, run_all: Callable[[], None]) -> None:
        self.runner = runner
        self.run_all = run_all  #: a copy is waited for together with the steps before it
        self.rng = random.Random(seed)
        self.memory: dict[int, list[Any]] = {}
        self.jobs: dict[int, list[Any]] = {}
        self.done: list[TransferResult] = []
        self.stored = self.loaded = 0

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        self.jobs[job_id] = [self.rng.randrange(4), "store", src_spec, dst_spec]
        return True

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        self.jobs[job_id] = [self.rng.randrange(4), "load", dst_spec, src_spec]
        if self.rng.random() < 0.5:
            self._load(dst_spec, src_spec)
        return True

    def _load(self, device: Any, host: Any) -> None:
        for ours, theirs in zip(device.block_ids.tolist(), host.block_ids.tolist(), strict=True):
            self.runner.put(ours, self.memory[theirs])
            self.loaded += 1

    def _end(self, job_id: int) -> None:
        _, what, device, host = self.jobs.pop(job_id)
        if what == "load":
            self._load(device, host)
        else:
            for ours, theirs in zip(device.block_ids.tolist(), host.block_ids.tolist(), strict=True):
                self.memory[theirs] = self.runner.content(ours)
                self.stored += 1
        self.done.append(TransferResult(job_id=job_id, success=True))

    def get_finished(self) -> list[TransferResult]:
        for job_id, job in list(self.jobs.items()):
            job[0] -= 1
            if job[0] < 0:
                self._end(job_id)
        done, self.done = self.done, []
        return done

    def wait(self, job_ids: set[int]) -> None:
        self.run_all()
        for job_id in [job_id for job_id in self.jobs if job_id in job_ids]:
            self._end(job_id)


class Offload:
    """vLLM's own worker of OffloadingConnector, called as its runners call it."""

    def __init__(self, runner: Any, seed: int) -> None:
        self.runner = runner
        self.host = Host(runner, seed, self.run_all)
        self.launched: deque[Any] = deque()
        self.outputs: deque[Any] = deque()  #: of the first of them
        self.worker = object.__new__(OffloadingConnectorWorker)
        self.worker.worker = self.host
        self.worker._is_store_writer = True
        self.worker._load_jobs = {}
        self.worker._unsubmitted_store_jobs = []
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata

        self.worker._connector_worker_meta = OffloadingWorkerMetadata()

    def launch(self, step: Any) -> None:
        told = step.kv_connector_metadata
        self.worker.handle_preemptions(told)
        self.worker.start_kv_transfers(told)
        self.worker.prepare_store_kv(told)
        self.launched.append(step)

    def run_all(self) -> None:
        for step in list(self.launched)[len(self.outputs) :]:
            self.outputs.append(self.runner.run(step))

    def finish(self) -> tuple[Any, Any]:
        """Runs the oldest step that was launched. Returns the step, and what came of it."""
        step = self.launched.popleft()
        output = self.outputs.popleft() if self.outputs else self.runner.run(step)
        _, done = self.worker.get_finished(step.finished_req_ids)
        output.kv_connector_output = KVConnectorOutput(
            finished_recving=done or None, kv_connector_worker_meta=self.worker.build_connector_worker_meta()
        )
        return step, output
