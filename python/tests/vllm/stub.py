# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A runner without a model, and schedulers for it.

The KV of a token is the token itself, written where the block table says. A step's output depends on every token that
attention would read there. A block that is lost, shared wrongly or overwritten gives another output, or none.
"""

from __future__ import annotations

import copy
import math
import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from zlib import crc32

import model

model.prepare()

import torch  # noqa: E402
from vllm import EngineArgs, SamplingParams  # noqa: E402
from vllm.lora.request import LoRARequest  # noqa: E402
from vllm.utils.hashing import get_hash_fn_by_name  # noqa: E402
from vllm.v1.core.kv_cache_utils import (  # noqa: E402
    get_request_block_hasher,
    init_none_hash,
    resolve_kv_cache_block_sizes,
)
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as OwnAsyncScheduler  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler as OwnScheduler  # noqa: E402
from vllm.v1.kv_cache_interface import (  # noqa: E402
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput  # noqa: E402
from vllm.v1.request import Request, RequestStatus  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402

import tessera.vllm.scheduler  # noqa: E402
from tessera.vllm import Scheduler  # noqa: E402

block_size = 16
longest = 1024
#: In place of what a group's layers look at: they keep a state of a request.
a_state = longest + 1
#: The same with prefix caching, in vLLM's mode "align": the states where steps end with a block are found again.
an_aligned = longest + 2


class StepClock:
    """What policies read as time in here: of steps, so that a run is the same however loaded a machine is."""

    step_s = 0.0007  #: less than the pace of the policies that have one, which then hold requests back
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    @contextmanager
    def installed(self) -> Iterator[None]:
        own = tessera.vllm.scheduler.time
        tessera.vllm.scheduler.time = self
        try:
            yield
        finally:
            tessera.vllm.scheduler.time = own


clock = StepClock()


@cache
def _engine_config(caching: bool, policy: str, drafts: int, adapters: int) -> Any:
    model.register("llama", "LlamaForCausalLM")
    more: dict[str, Any] = {}
    if drafts:
        more["speculative_config"] = {"method": "ngram", "num_speculative_tokens": drafts, "prompt_lookup_max": 3}
    if adapters:
        more |= {"enable_lora": True, "max_loras": adapters}
    return EngineArgs(
        **more,
        model=model.folder(),
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=longest,
        max_num_seqs=24,
        max_num_batched_tokens=128,
        enable_prefix_caching=caching,
        block_size=32,
        scheduling_policy=policy,
    ).create_engine_config()


def config(
    caching: bool = True,
    policy: str = "fcfs",
    tessera: dict | None = None,
    second: bool = False,
    drafts: int = 0,
    adapters: int = 0,
    drafter: str = "ngram",
    stages: int = 1,
    **scheduler: Any,
) -> Any:
    """vLLM's configuration; `second`: for its second model runner. `async_scheduling`: for two steps in flight.
    `stages`: of a pipeline. `drafts`, `adapters`: most of a request in a step, and at once. `drafter`: what drafts, by
    vLLM's name; "modules": MTP of several modules."""
    made = copy.copy(_engine_config(caching, policy, drafts, adapters))
    if drafts and drafter != "ngram":
        # vLLM would ask for the drafter's weights.
        made.speculative_config = copy.copy(made.speculative_config)
        object.__setattr__(made.speculative_config, "method", "mtp" if drafter == "modules" else drafter)
        object.__setattr__(made.speculative_config, "use_multi_module_mtp", lambda: drafter == "modules")
        if hasattr(made.speculative_config, "disable_lookahead_block_hashes"):
            object.__setattr__(
                made.speculative_config, "disable_lookahead_block_hashes", True
            )  # else `hasher` has others
    made.scheduler_config = copy.copy(made.scheduler_config)
    made.cache_config = copy.copy(made.cache_config)
    made.scheduler_config.async_scheduling = False
    for name, value in scheduler.items():
        assert hasattr(made.scheduler_config, name), name
        setattr(made.scheduler_config, name, value)
    made.parallel_config = copy.copy(made.parallel_config)
    object.__setattr__(made.parallel_config, "pipeline_parallel_size", stages)
    made.additional_config = {"tessera": tessera} if tessera is not None else {}
    # A property of the class in vLLM; here each configuration has its own answer.
    made.__class__ = type(
        "Config", (type(made),), {"use_v2_model_runner": property(lambda self: second), "__hash__": object.__hash__}
    )
    return made


def memory(blocks: int, windows: tuple[int, ...] = (0,), latent: bool = False, drafts: int = 0, sizes: Any = ()) -> Any:
    """The memory of a model with a group of layers for each of `windows`: they look at so many tokens. 0: at all
    tokens. Less than 0: in chunks of so many. `a_state`: at a state, which can be kept after each of `drafts` drafts.
    `an_aligned`: at one that is found again.
    `latent`: by latent attention. `sizes`: of the blocks of each group."""
    shape: dict[str, Any] = {"num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    of_all, of_window = (MLAAttentionSpec, SlidingWindowMLASpec) if latent else (FullAttentionSpec, SlidingWindowSpec)
    specs: list[Any] = []
    for w, size in zip(windows, sizes or [block_size] * len(windows), strict=True):
        shape["block_size"] = size
        if w == a_state:
            shapes, dtypes = ((1,),), (torch.float32,)
            specs.append(MambaSpec(block_size=longest, shapes=shapes, dtypes=dtypes, num_speculative_blocks=drafts))
        elif w == an_aligned:
            specs.append(
                MambaSpec(
                    block_size=block_size,
                    shapes=((1,),),
                    dtypes=(torch.float32,),
                    mamba_cache_mode="align",
                    num_speculative_blocks=drafts,
                )
            )
        elif w < 0:
            specs.append(ChunkedLocalAttentionSpec(attention_chunk_size=-w, **shape))
        else:
            specs.append(of_window(sliding_window=w, **shape) if w else of_all(**shape))
    groups = [KVCacheGroupSpec([f"layer {i}"], spec) for i, spec in enumerate(specs)]
    return KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)


def scheduler(cls: type, made: Any, blocks: int, **rest: Any) -> Any:
    made.cache_config.num_gpu_blocks = blocks
    kv = rest.pop("kv", None) or memory(blocks)
    # As vLLM's engine core. It keeps what modules of MTP look at when they compute their last tokens anew.
    made.cache_config.block_size = min(group.kv_cache_spec.block_size for group in kv.kv_cache_groups)
    for group in kv.kv_cache_groups:
        if hasattr(group.kv_cache_spec, "extra_retained_tokens"):
            further = max(made.num_prefill_lookahead_tokens - 1, 0)
            group.kv_cache_spec = replace(group.kv_cache_spec, extra_retained_tokens=further)
    if any(getattr(group.kv_cache_spec, "mamba_cache_mode", "none") == "align" for group in kv.kv_cache_groups):
        made.cache_config.mamba_cache_mode = "align"
    by, hashed = resolve_kv_cache_block_sizes(kv, made)
    return cls(
        vllm_config=made,
        kv_cache_config=kv,
        structured_output_manager=StructuredOutputManager(made),
        block_size=by,
        hash_block_size=hashed,
        **rest,
    )


@cache
def hasher(size: int = block_size) -> Any:
    function = get_hash_fn_by_name("sha256")
    init_none_hash(function)
    return get_request_block_hasher(size, function)


def next_token(sequence: list[int]) -> int:
    h = 17
    for token in sequence:
        h = (h * 1_000_003 + token + 1) & 0xFFFF_FFFF
    return 3 + (h >> 7) % 61


def answer(prompt: list[int], params: SamplingParams, most: int = 1024, adapter: int = 0) -> list[int]:
    """What a request must give."""
    sequence = list(prompt)
    while True:
        token = next_token([adapter * 1000, *sequence])
        sequence.append(token)
        generated = len(sequence) - len(prompt)
        if token == params.eos_token_id or token in (params.stop_token_ids or ()):
            break
        if generated >= params.max_tokens or len(sequence) >= most:
            break
    return sequence[len(prompt) :]


@dataclass
class State:
    tokens: list[int]
    prompt: int
    blocks: list[list[int]]  #: of each group
    done: int
    adapter: int = 0
    at: int = 0  #: which of a state's blocks has the present one
    told: int = 0  #: so many tokens the first stage of a pipeline knows
    column: int = -1  #: the block of a state that is found again, by its place in the table; -1: there is none


@dataclass
class Runner:
    """Keeps its books as vLLM's runners do: what it is not told, it does not know."""

    blocks: int
    second: bool = False
    drafts: int = 0  #: it guesses so many tokens of each request, some of them wrong
    adapters: int = 0  #: it has room for the weights of so many
    windows: tuple[int, ...] = (0,)  #: as `memory`'s
    sizes: tuple[int, ...] = ()  #: as `memory`'s
    places: int = 24  #: it has room for so many requests: in a step, or if it is the second runner, at all
    whole: int = 0  #: it computes a prompt in one step, and has buffers for so many tokens in it
    drafter: str = ""  #: what drafts with KV of its own, in the same blocks; empty: nothing does
    zeroes: bool = False  #: new blocks of groups without a state must be made zero
    stages: int = 1  #: of a pipeline: the last one samples
    discards: bool = False  #: KV may not come: then a token that was sampled without it is not one of its request
    states: dict[str, State] = field(default_factory=dict)
    batch: set[str] = field(default_factory=set)
    resumed: int = 0
    tried: int = 0
    accepted: int = 0
    acceptable: dict[str, int] = field(default_factory=dict)  #: so many drafts its grammar allows, by id

    def __post_init__(self) -> None:
        self.rng = random.Random(self.blocks)
        #: What the second runner's first stage learns of the steps before: as many steps later as there are stages.
        self.ring: deque[list[tuple[str, State, int]]] = deque([] for _ in range(self.stages))
        self.stale = 0  #: so often a drafter has found other KV than its own
        self.guesses: dict[str, list[int]] = {}  #: of each request, the latest
        self.latest: dict[str, list[int]] = {}  #: those of the latest step
        self.sizes = self.sizes or (block_size,) * len(self.windows)
        self.kv: list[list[int | None]] = [[None] * max(self.sizes) for _ in range(self.blocks)]
        self.drafters_kv: list[list[Any]] = [[None] * max(self.sizes) for _ in range(self.blocks)]

    def run(self, step: Any) -> ModelRunnerOutput:
        for request_id, state, known in self.ring.popleft():
            if self.states.get(request_id) is state:
                state.told = max(state.told, known)
        gone = step.finished_req_ids | ((step.preempted_req_ids or set()) if self.second else set())
        for request_id in gone:
            self.states.pop(request_id, None)
        zeroed = set(step.new_block_ids_to_zero or ())
        assert self.zeroes or not zeroed
        for block in zeroed:
            self.kv[block] = [None] * max(self.sizes)
        for new in step.scheduled_new_reqs:
            self._must_be_zero(zeroed, new.block_ids, new.num_computed_tokens)
            tokens = new.prefill_token_ids if self.second else new.prompt_token_ids
            assert self.second or new.req_id not in self.states, "a request is introduced twice"
            self.states[new.req_id] = State(
                list(tokens),
                len(new.prompt_token_ids),
                [list(ids) for ids in new.block_ids],
                new.num_computed_tokens,
                new.lora_request.lora_int_id if new.lora_request is not None else 0,
                told=len(tokens),
                column=(new.num_computed_tokens - 1) // block_size,
            )
        cached = step.scheduled_cached_reqs
        assert len(cached.req_ids) == len(cached.new_block_ids) == len(cached.num_computed_tokens)
        for i, (request_id, blocks, done, outputs) in enumerate(
            zip(cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True)
        ):
            state = self.states[request_id]
            if self.stages > 1 and not self.second:
                sent = cached.new_token_ids[i]
                assert len(sent) == step.num_scheduled_tokens[request_id] and done <= state.told, "tokens are missing"
                assert sent == state.tokens[done : done + len(sent)], "other tokens than those that were sampled"
                state.told = max(state.told, done + len(sent))
            if request_id in cached.resumed_req_ids:
                assert not self.second and (self.stages > 1 or request_id in cached.all_token_ids)
                self._must_be_zero(zeroed, blocks, done)
                state.at = 0
                state.column = (done - 1) // block_size
                state.blocks = [list(ids) for ids in blocks]
                self.resumed += 1
            elif blocks is not None:
                self._must_be_zero(zeroed, blocks, 0)
                for mine, fresh in zip(state.blocks, blocks, strict=True):
                    mine += fresh
            if self.discards:
                del state.tokens[state.prompt + outputs :]
            if not self.second and self.stages == 1 and request_id not in self.batch:
                assert cached.all_token_ids[request_id] == state.tokens, "who was away is told all its tokens"
            state.done = done
            if self.drafts and done >= len(state.tokens):
                # Planned as if all drafts of the step before held; the device knows better.
                outputs -= done - (len(state.tokens) - 1)
                state.done = len(state.tokens) - 1
            assert len(state.tokens) - state.prompt == outputs
        scheduled = step.num_scheduled_tokens
        assert step.total_num_scheduled_tokens == sum(scheduled.values())
        assert set(scheduled) == set(cached.req_ids) | {n.req_id for n in step.scheduled_new_reqs}
        self.batch = set(scheduled)
        assert len(self.states if self.second else scheduled) <= self.places, "more requests than there is room for"
        assert not self.whole or step.total_num_scheduled_tokens <= self.whole, "more tokens than there is room for"
        adapters = {self.states[request_id].adapter for request_id in scheduled} - {0}
        assert len(adapters) <= max(self.adapters, 0), "more adapters than there is room for"
        given = step.scheduled_spec_decode_tokens
        drafts = {request_id: self._verified(request_id, tokens) for request_id, tokens in given.items()}
        assert all(0 < len(tokens) < scheduled[request_id] for request_id, tokens in given.items())

        # States are copied to the blocks that go on, before any of these is written to.
        for request_id, count in scheduled.items():
            self._move_on(self.states[request_id], count)
        # All write, then all read: a block that two write to is seen by the one that comes too late.
        for request_id, count in scheduled.items():
            state = self.states[request_id]
            assert self.stages == 1 or state.done + count <= state.told, "the first stage lacks a token"
            assert count > 0 and state.done + count - len(given.get(request_id, ())) <= len(state.tokens)
            tokens = state.tokens + drafts.get(request_id, [])
            for group, mine in enumerate(state.blocks):
                if self._keeps_state(group):
                    self._advance(state, group, tokens, count, len(drafts.get(request_id, ())))
                    continue
                for position in range(state.done, state.done + count):
                    # What one adapter or group has computed is of no use to another.
                    self._write(self.kv, mine, group, position, tokens[position] + self._tag(state, group))
        ids, outputs = list(scheduled), []
        # Not in the order of the plan: a runner has an order of its own. The same in every process, as `hash` is not:
        # which drafts hold depends on it.
        ids.sort(key=lambda request_id: crc32(request_id.encode()) & 7)
        for request_id in ids:
            state = self.states[request_id]
            mine = drafts.get(request_id, [])
            end = state.done + scheduled[request_id] - len(mine)
            if end != len(state.tokens):
                assert not self.whole, "a prompt that is cut"
                assert not mine, "drafts in the middle of a prompt"
                outputs.append([])
                continue
            known = self._read(state, [*state.tokens, *mine])
            got: list[int] = []
            for n, draft in enumerate([*mine, None]):
                token = next_token([1000 * state.adapter, *known[: end + n]])
                got.append(token)
                if token != draft:
                    break
            self.tried += len(mine)
            self.accepted += len(got) - 1
            state.at = len(got) - 1
            self._leave_state(state, end, end + len(got) - 1)
            state.tokens += got
            outputs.append(got)
        got_one = [request_id for request_id, got in zip(ids, outputs, strict=True) if got]
        self.ring.append([(i, self.states[i], len(self.states[i].tokens)) for i in got_one])
        if self.drafter:
            self._draft(scheduled, {i: len(drafts.get(i, [])) for i in scheduled}, dict(zip(ids, outputs, strict=True)))
        if self.drafts:
            most = min(self.drafts, step.num_spec_tokens_to_schedule)
            self.latest = {request_id: self._guess(self.states[request_id], most) for request_id in got_one}
            self.guesses |= self.latest
        return ModelRunnerOutput(
            req_ids=ids, req_id_to_index={r: i for i, r in enumerate(ids)}, sampled_token_ids=outputs
        )

    def content(self, block: int) -> Any:
        """All that is in a block, for `put`: a connector moves the KV of a drafter together with the model's."""
        return list(self.kv[block]), list(self.drafters_kv[block])

    def put(self, block: int, content: Any) -> None:
        self.kv[block], self.drafters_kv[block] = (list(of) for of in content)

    def spoil(self, block: int) -> None:
        """Fills it with what was to come and has not."""
        self.put(block, ([-7] * block_size, [None] * block_size))

    def _must_be_zero(self, zeroed: set[int], blocks: Any, done: int) -> None:
        for group, mine in enumerate(blocks):
            fresh = set(mine[done // self.sizes[group] :]) - {0}
            assert not self.zeroes or self._keeps_state(group) or zeroed.issuperset(fresh)

    def _write(self, kv: list[list[Any]], blocks: list[int], group: int, position: int, value: Any) -> None:
        block = blocks[position // self.sizes[group]]
        assert block != 0, "the null block"
        kv[block][position % self.sizes[group]] = value

    def _at(self, kv: list[list[Any]], state: State, group: int, position: int) -> Any:
        return kv[state.blocks[group][position // self.sizes[group]]][position % self.sizes[group]]

    def _keeps_state(self, group: int) -> bool:
        return self.windows[group] in (a_state, an_aligned)

    def _move_on(self, state: State, count: int) -> None:
        """The state of a request is copied to the block of the last token that the step computes."""
        before, state.column = state.column, math.ceil((state.done + count) / block_size) - 1
        for group, mine in enumerate(state.blocks):
            if self.windows[group] != an_aligned or before in (-1, state.column):
                continue
            assert mine[before + state.at] != 0 and mine[state.column] != 0, "the null block"
            self.kv[mine[state.column]][0] = self.kv[mine[before + state.at]][0]
        if before not in (-1, state.column) and an_aligned in self.windows:
            state.at = 0

    def _leave_state(self, state: State, computed: int, end: int) -> None:
        """Where accepted drafts have reached or passed the end of a block, the state there is left in that block.
        `computed` tokens without them, `end` with them."""
        whole = end // block_size * block_size
        if whole < computed:
            return
        to = whole // block_size - 1
        for group, mine in enumerate(state.blocks):
            if self.windows[group] == an_aligned:
                assert mine[to] != 0, "the null block"
                self.kv[mine[to]][0] = self.kv[mine[state.column + whole - computed]][0]
        if to == state.column and an_aligned in self.windows:
            assert end == whole
            state.at = 0

    def _advance(self, state: State, group: int, tokens: list[int], count: int, drafts: int) -> None:
        """A state becomes that after `count` tokens; after each of the drafts in a block of its own."""
        mine = state.blocks[group]
        # What one group has computed is of no use to another.
        known = (tuple(tokens[: state.done]), self._tag(state, group)) if state.done else None
        first = state.column if self.windows[group] == an_aligned else 0
        assert not state.done or self.kv[mine[first + state.at]][0] == known, "another state"
        for i in range(drafts + 1):
            end = state.done + count - drafts + i
            assert mine[first + i] != 0, "the null block"
            self.kv[mine[first + i]][0] = (tuple(tokens[:end]), self._tag(state, group))

    def _tag(self, state: State, group: int) -> int:
        return 1000 * state.adapter + 100_000 * group

    def _read(self, state: State, tokens: list[int]) -> list[int]:
        """What the layers see of a request's tokens. What is not as it was written, for any group, is seen by all.
        A window is that of the first token that the step has computed."""
        seen = list(tokens)
        for group, window in enumerate(self.windows):
            if self._keeps_state(group):
                continue
            first = max(0, state.done - window + 1) if window else 0
            if window < 0:
                first = state.done - state.done % -window
            for p in range(first, len(tokens)):
                if self._at(self.kv, state, group, p) != tokens[p] + self._tag(state, group):
                    seen[p] = -1
        return seen

    def _draft(self, scheduled: dict[str, int], drafted: dict[str, int], got: dict[str, list[int]]) -> None:
        """The drafter's pass over the tokens of a step that hold, and where it goes on guessing. EAGLE's layers read of
        each place the token there and the next one. MTP of several modules: as many next ones as there are."""
        ahead = self.drafts + (self.drafter == "dflash")
        again = self.drafts - 1 if self.drafter == "modules" else 0
        ends = {}
        for request_id, count in scheduled.items():
            state = self.states[request_id]
            # What the model has computed, less the drafts that it has refused.
            ends[request_id] = end = state.done + count - (drafted[request_id] - max(len(got[request_id]) - 1, 0))
            # What is read ahead is in the prompt, or has been sampled.
            assert not again or got[request_id] or len(state.tokens) - end >= self.drafts, "a step too near to the end"
            for group, mine in enumerate(state.blocks):
                if self._keeps_state(group):
                    continue
                # Modules compute their last tokens anew, now that the next ones are known.
                for p in range(max(state.done - again, 0), min(state.done + count + ahead, longest)):
                    kv = self._drafters(state, group, p) if p < end else ("a guess", request_id)
                    self._write(self.drafters_kv, mine, group, p, kv)
        for request_id, end in ends.items():
            state = self.states[request_id]
            for group, window in enumerate(self.windows):
                if self._keeps_state(group):
                    continue
                # Each of those that are computed anew looks at a window.
                first = max(0, end - again - window) if window > 0 else end - 1 - (end - 1) % -window if window else 0
                for p in range(first, end - again):
                    self.stale += self._at(self.drafters_kv, state, group, p) != self._drafters(state, group, p)

    def _drafters(self, state: State, group: int, p: int) -> Any:
        read = {"eagle": 2, "modules": 1 + self.drafts}.get(self.drafter, 1)
        return tuple(state.tokens[p : p + read]), self._tag(state, group)

    def _guess(self, state: State, most: int) -> list[int]:
        """What may come next: as many tokens as an n-gram would find, right up to a wrong one."""
        guess: list[int] = []
        for _ in range(self.rng.randrange(most + 1)):
            right = next_token([state.adapter * 1000, *state.tokens, *guess])
            guess.append(right if self.rng.random() < 0.8 else 3 + right % 61)
        return guess

    def _verified(self, request_id: str, given: list[int]) -> list[int]:
        """The drafts of a step: its own, where it was given places."""
        known = self.guesses.get(request_id, [])
        if all(token == -1 for token in given):
            known = known[: self.acceptable.get(request_id, self.drafts)]
            return (known + [-1] * len(given))[: len(given)]
        n = next((i for i, token in enumerate(given) if token == -1), len(given))
        assert given[:n] == known[:n], "it has guessed something else"
        return given

    def take_draft_token_ids(self) -> DraftTokenIds:
        return DraftTokenIds(list(self.latest), [list(guess) for guess in self.latest.values()])


@dataclass
class Load:
    """Prompts with shared beginnings and what is asked of them."""

    seed: int
    count: int = 120
    priorities: bool = False
    tenants: bool = False
    adapters: int = 0
    beginning: int = 70  #: so many tokens are shared
    hints: bool = False  #: some of them say of their KV how long it is of use, and to which session
    hashed: int = block_size  #: so many tokens vLLM's own hashes at a time

    def adapter_of(self, request_id: str) -> int:
        return int(request_id) * 7 % (self.adapters + 1)

    def request(self, arrival: Any) -> Any:
        """One of `requests`, for a scheduler."""
        return request(*arrival, adapter=self.adapter_of(arrival[0]), hashed=self.hashed)

    def answer(self, arrival: Any) -> list[int]:
        """What it must give."""
        request_id, prompt, params, *_ = arrival
        return answer(prompt, params, adapter=self.adapter_of(request_id))

    def requests(self) -> list[tuple[str, list[int], SamplingParams, int, str | None]]:
        rng = random.Random(self.seed)
        beginnings = [[rng.randrange(3, 64) for _ in range(self.beginning)] for _ in range(3)]
        made = []
        for i in range(self.count):
            prompt = rng.choice(beginnings) * (rng.random() < 0.7)
            prompt = prompt + [rng.randrange(3, 64) for _ in range(rng.randrange(1, 150))]
            params = SamplingParams(
                temperature=0,
                max_tokens=rng.randrange(1, 120),
                stop_token_ids=[5] if rng.random() < 0.5 else None,
            )
            if rng.random() < 0.3:
                params._eos_token_id = 9
            said: dict[str, Any] = {"tenant": "abc"[i % 5 % 3]} if self.tenants else {}
            if self.hints and i % 3:
                said |= {"session": str(i % 10), "keep_s": i % 7, "release": i % 4 == 0}
            params.extra_args = {"tessera": said} if said else None
            salt = rng.choice([None, None, "a", "b"])
            made.append((str(i), prompt, params, rng.randrange(3) if self.priorities else 0, salt))
        return made


def request(
    request_id: str,
    prompt: list[int],
    params: SamplingParams,
    priority: int = 0,
    salt: str | None = None,
    adapter: int = 0,
    hashed: int = block_size,
    **k: Any,
) -> Any:
    if adapter:
        k["lora_request"] = LoRARequest(f"adapter {adapter}", adapter, f"/adapters/{adapter}")
    return Request(
        request_id, list(prompt), params, None, priority=priority, cache_salt=salt, block_hasher=hasher(hashed), **k
    )


__all__ = ["OwnAsyncScheduler", "OwnScheduler", "RequestStatus", "Scheduler"]
