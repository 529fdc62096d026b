# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A KV connector without a network: the KV of all engines is in the memory of one process, pulled a few steps late.

What it asks of a scheduler, and when, is what vLLM's NIXL connector asks. Its worker is `Worker`, beside a stub runner.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import stub
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    SupportsHMA,
)
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus


@dataclass
class Told(KVConnectorMetadata):
    """What the worker is to do in a step."""

    #: local blocks of each group, and from where
    pull: dict[str, tuple[list[list[int]], dict[str, Any]]] = field(default_factory=dict)
    keep: list[str] = field(default_factory=list)  #: these have ended, and a peer will pull


class NixlConnector(KVConnectorBase_V1, SupportsHMA):
    """The scheduler's side, by the name of the one that it stands for."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self.name = vllm_config.kv_transfer_config.engine_id
        self.next = Told()
        self.asked: list[str] = []
        #: So many blocks of each group go from one engine to another, at most; 0: all.
        specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
        windows = [spec.sliding_window if isinstance(spec, stub.SlidingWindowSpec) else 0 for spec in specs]
        self.most = [-(-window // stub.block_size) for window in windows]

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        params = request.kv_transfer_params or {}
        if params.get("do_remote_prefill"):
            return request.num_prompt_tokens - num_computed_tokens, True
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        params = request.kv_transfer_params or {}
        if params.get("do_remote_prefill"):
            local = blocks.get_unhashed_block_ids_all_groups() if num_external_tokens else []
            self.next.pull[request.request_id] = (self._clipped(local), params)
            params["do_remote_prefill"] = False

    def _clipped(self, block_ids: Any) -> list[list[int]]:
        """A window's last blocks, as vLLM's connector counts them."""
        return [ids[-n - 1 :] if n else ids for ids, n in zip(block_ids, self.most, strict=False)]

    def build_connector_meta(self, scheduler_output: Any) -> Told:
        told, self.next = self.next, Told()
        return told

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        params = request.kv_transfer_params or {}
        if params.get("do_remote_prefill"):
            self.next.pull[request.request_id] = ([], params)  # none will: let it go there
            return False, None
        ended = (RequestStatus.FINISHED_LENGTH_CAPPED, RequestStatus.FINISHED_STOPPED)
        if not params.get("do_remote_decode") or request.status not in ended:
            return False, None
        for ids in block_ids:
            assert len(ids) == -(-request.num_computed_tokens // stub.block_size)
        self.next.keep.append(request.request_id)
        return True, {
            "do_remote_prefill": True,
            "remote_block_ids": self._clipped(block_ids),
            "remote_engine_id": self.name,
            "remote_request_id": request.request_id,
        }

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        raise NotImplementedError

    # The worker's side is not this class.
    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None: ...
    def wait_for_layer_load(self, layer_name: str) -> None: ...
    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None: ...
    def wait_for_save(self) -> None: ...


class Worker:
    """Moves blocks between stub runners. A transfer takes some steps; a part of them may fail, as a block of it.

    It writes whatever the device does: when a step is launched, those before it may still have to run.
    """

    def __init__(self, name: str, runner: Any, all_workers: dict[str, Worker], seed: int, failing: float = 0) -> None:
        self.runner = runner
        self.others = all_workers
        all_workers[name] = self
        self.rng = random.Random(seed)
        self.failing = failing
        self.kept: set[str] = set()
        self.gone: set[str] = set()
        self.pulling: dict[str, list[Any]] = {}  #: steps left, local blocks, where from
        self.unwanted: list[dict[str, Any]] = []
        self.sent: set[str] = set()
        self.launched: deque[tuple[Any, Any]] = deque()
        self.pulled = 0
        self.failed = 0

    def run(self, step: Any) -> Any:
        self.launch(step)
        return self.finish()[1]

    def finish(self) -> tuple[Any, Any]:
        """Runs the oldest step that was launched. Returns the step, and what came of it."""
        step, told = self.launched.popleft()
        output = self.runner.run(step)
        output.kv_connector_output = told
        return step, output

    def launch(self, step: Any) -> None:
        told = step.kv_connector_metadata
        self.kept |= set(told.keep)
        for request_id, (local, params) in told.pull.items():
            if any(local):
                self.pulling[request_id] = [self.rng.randrange(6), local, params]
            else:
                self.unwanted.append(params)
        for params in list(self.unwanted):
            if self._is_kept(params):
                self.unwanted.remove(params)
                self._let_go(params)
        done, invalid, failed = set(), set(), set()
        for request_id, job in list(self.pulling.items()):
            job[0] -= 1
            if job[0] >= 0 or not self._is_kept(job[2]):
                continue
            del self.pulling[request_id]
            done.add(request_id)
            lost = set(invalid)
            if self.rng.random() < self.failing:
                block = self.rng.choice([block for ids in job[1] for block in ids])
                lost.add(block)
                # With several groups vLLM is told of the request, not of blocks.
                (invalid.add(block) if len(job[1]) == 1 else failed.add(request_id))
                self.failed += 1
            self._copy(job[1], job[2], lost)
            self._let_go(job[2])
        sent, self.sent = self.sent, set()
        self.launched.append(
            (
                step,
                KVConnectorOutput(
                    finished_sending=sent or None,
                    finished_recving=done or None,
                    invalid_block_ids=invalid,
                    **({"failed_recving": failed} if failed else {}),
                ),
            )
        )

    def _is_kept(self, params: dict[str, Any]) -> bool:
        """Its worker hears of it a step later."""
        other, request_id = self.others[params["remote_engine_id"]], params["remote_request_id"]
        assert request_id not in other.gone, "its blocks are not kept any more"
        return request_id in other.kept

    def _copy(self, groups: list[list[int]], params: dict[str, Any], invalid: set[int]) -> None:
        """The last of the remote blocks, where some are here already."""
        other = self.others[params["remote_engine_id"]]
        for local, remote in zip(groups, params["remote_block_ids"], strict=True):
            assert len(remote) >= len(local)
            for mine, theirs in zip(local, remote[len(remote) - len(local) :], strict=True):
                if mine not in invalid:
                    self.runner.put(mine, other.runner.content(theirs))
                    self.pulled += 1

    def _let_go(self, params: dict[str, Any]) -> None:
        self.others[params["remote_engine_id"]].expire(params["remote_request_id"])

    def expire(self, request_id: str) -> None:
        """Its blocks are not needed any more, or no peer has come for them in time."""
        if request_id in self.kept:
            self.kept.remove(request_id)
            self.gone.add(request_id)
            self.sent.add(request_id)
