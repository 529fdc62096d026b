# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An engine without a model, for trying a router in seconds: batches, KV blocks, a prefix cache and time are there.

A token is a function of all ids before it, and KV is the state of that function. An engine that goes on with KV of
other tokens says something else. So does a stream in which a token is lost or comes twice. A step takes `step` seconds,
and more for each prompt token and each sequence. With `roofline` the prompts' part and the rest overlap, as arithmetic
and memory do. Faults are methods.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tessera.fleet import AtFault, Call, Died, Load, Piece, Refused, Report, Unreachable, takes

EOS = 2
#: An engine that computes a prompt with this dies.
POISON = 7777
_mask = (1 << 64) - 1
#: What parameters of sampling may be, at least and at most, as vLLM takes them.
_ranges = {
    "temperature": (0.0, math.inf),
    "top_p": (1e-9, 1.0),
    "top_k": (-1, math.inf),
    "min_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "repetition_penalty": (1e-9, math.inf),
    "min_tokens": (0, math.inf),
}


def absorb(state: int, ids: Iterable[int]) -> int:
    """The state after these ids: what KV is."""
    for i in ids:
        state = (state * 6364136223846793005 + i + 1442695040888963407) & _mask
    return state


def token_after(state: int, vocabulary: int, ends: bool) -> int:
    """The token that follows; one in 200 is the end, if it may be."""
    x = (state ^ (state >> 29)) * 0xBF58476D1CE4E5B9 & _mask
    x ^= x >> 32
    if ends and x % 200 == 0:
        return EOS
    return 3 + (x >> 8) % (vocabulary - 3)


def answer(prompt: Iterable[int], max_tokens: int, ends: bool = False, vocabulary: int = 1000) -> list[int]:
    """What every engine says."""
    state, out = absorb(1, prompt), []
    while len(out) < max_tokens:
        out.append(token_after(state, vocabulary, ends))
        if out[-1] == EOS:
            break
        state = absorb(state, out[-1:])
    return out


@dataclass(eq=False)
class _Sequence:
    call: Call
    ids: list[int]
    prompt: int
    state: int = 1
    computed: int = 0
    held: int = 0
    out: int = 0
    told: int = 0
    cached: int = 0
    shared: int = 0  # blocks that it had found in the cache when it said its first token
    fetch: float = 0.0
    ends: list[int] = field(default_factory=list)  # states at the ends of its whole blocks
    queue: asyncio.Queue[Piece | Exception] = field(default_factory=asyncio.Queue)


class FakeEngine:
    """A replica as `tessera.fleet.Router` takes it. `peers`: engines that can give it KV, by name."""

    def __init__(
        self,
        name: str = "fake",
        *,
        blocks: int = 512,
        block_size: int = 16,
        seqs: int = 16,
        budget: int = 512,
        step: float = 0.01,
        per_prompt_token: float = 2e-5,
        per_sequence: float = 2e-4,
        roofline: bool = False,
        latency: float = 0.001,
        per_fetched_token: float = 1e-5,
        cache_blocks: int = 256,
        vocabulary: int = 1000,
        moves: bool = True,
        stream_interval: int = 1,
        export_lease: float = 30.0,
        life: int = 1,
        peers: dict[str, FakeEngine] | None = None,
    ) -> None:
        self.name = name
        self.blocks = self.free = blocks
        self.block_size = block_size
        self.seqs = seqs
        self.budget = budget
        self.step = step
        self.per_prompt_token = per_prompt_token
        self.per_sequence = per_sequence
        self.roofline = roofline
        self.latency = latency
        self.per_fetched_token = per_fetched_token
        self.cache_blocks = cache_blocks
        self.vocabulary = vocabulary
        #: What it cannot do, though it has the methods.
        self.cannot: tuple[str, ...] = () if moves else ("moves", "live_moves")
        #: Tokens of a piece, but of the first and the last.
        self.stream_interval = stream_interval
        self.export_lease = export_lease
        self.life = life
        self.peers = peers if peers is not None else {}
        self.peers[name] = self
        self.waiting: deque[_Sequence] = deque()
        self.running: list[_Sequence] = []
        self.exports: dict[int, tuple[int, float]] = {}
        self.epoch = 0
        self.steps = 0
        self.step_ends = 0.0
        self.preemptions = 0
        self.computed_tokens = 0
        self.calls = 0
        # Faults.
        self.dead = False
        self.core_dead = False
        self.refusing = False
        self.hung = False
        self.slow = 1.0
        self.lie: Callable[[Report], Report] | None = None
        #: What it was told, by name, and its own budget.
        self.told: dict[str, Any] = {}
        self._own_budget = budget
        self._cache: OrderedDict[int, None] = OrderedDict()  # states at the ends of blocks
        self._events: list[tuple[Any, ...]] = []
        self._keys = itertools.count(1)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # -- what a router calls

    async def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        await asyncio.sleep(self.latency)
        if self.dead:
            raise Unreachable(f"{self.name} is not there")
        if self.core_dead:
            raise Died(f"the core of {self.name} is dead")
        if self.refusing:
            raise Refused(f"{self.name} is full")
        for name, (least, most) in _ranges.items():
            value = call.params.get(name)
            if value is not None and not least <= value <= most:
                raise AtFault(f"{name} must be from {least:g} to {most:g}, not {value:g}")
        if (call.params.get("min_tokens") or 0) > call.max_tokens:
            raise AtFault(f"min_tokens must be at most max_tokens, {call.max_tokens}")
        if -(-(len(call.ids) + call.max_tokens) // self.block_size) > self.blocks:
            raise AtFault(f"there is no room for {len(call.ids)} tokens and {call.max_tokens} more")
        self.calls += 1
        sequence = _Sequence(call, list(call.ids), len(call.ids))
        self.waiting.append(sequence)
        self._start()
        try:
            if call.kv is not None and not await self._fetch(sequence, call.kv):
                yield Piece(call.at, (), "error")
                return
            self._wake.set()
            while True:
                piece = await sequence.queue.get()
                if isinstance(piece, Exception):
                    raise piece
                yield piece
                if piece.finish is not None:
                    return
        finally:
            self._drop(sequence)

    async def report(self) -> Report:
        await asyncio.sleep(self.latency)
        if self.dead:
            raise Unreachable(f"{self.name} is not there")
        self.epoch += 1
        by_router: dict[str, Load] = {}
        shared = 0
        for s in [*self.waiting, *self.running]:
            # A growing request needs blocks for the tokens that it has, as the book counts it.
            size = -(-len(s.ids) // self.block_size)
            # What it has found counts for the request that computed it.
            load = Load(
                1,
                size - s.shared if s.out else 0,
                0 if s.out else size,
                prefill=0.0 if s.out else float(len(s.ids)),
            )
            before = by_router.get(s.call.router, Load())
            by_router[s.call.router] = Load(*(a + b for a, b in zip(before, load, strict=True)))
            shared += s.shared
        total = Load(*(sum(x) for x in zip(Load(), *by_router.values(), strict=True)))
        total = total._replace(kv_held=total.kv_held + shared)  # here each has blocks of its own all the same
        events, self._events = self._events, []
        said = Report(self.epoch, total, by_router, self.free, self.life, events=events)
        return said if self.lie is None else self.lie(said)

    async def fence(self) -> None:
        self.kill()

    async def become(self, role: str) -> None:
        self.told["role"] = role

    async def set_prefill_budget(self, tokens: int) -> None:
        """Bounds a step's tokens, of which those of decodes are few."""
        self.told["prefill_budget"] = tokens
        self.budget = tokens or self._own_budget

    async def set_order(self, parameter: str, value: float) -> None:
        """Its order is first come, first served: the parameters change nothing."""
        self.told[parameter] = value

    async def set_length_range(self, first: int, last: int | None) -> None:
        self.told["lengths"] = (first, last)

    # -- faults

    def kill(self) -> None:
        """kill -9 of the replica: streams break, and nothing answers."""
        self.dead = True
        self._break(f"{self.name} was killed")

    def kill_core(self) -> None:
        """kill -9 of the engine's core: the front end of the replica says so, and goes on reporting."""
        self.core_dead = True
        self._break(f"the core of {self.name} is dead")

    def _break(self, why: str) -> None:
        if self._task is not None:
            self._task.cancel()
        for s in [*self.waiting, *self.running]:
            s.queue.put_nowait(Died(why))
        self.exports.clear()
        self._cache.clear()

    @property
    def live(self) -> int:
        """Requests that it has."""
        return len(self.waiting) + len(self.running)

    # -- KV of peers

    async def _fetch(self, s: _Sequence, kv: Any) -> bool:
        """Takes KV over, or leaves it and computes anew. False if it never came."""
        source = self.peers.get(kv["source"])
        fits = takes(kv["blocks"], len(s.ids), self.block_size)
        s.fetch = float("inf")
        await asyncio.sleep(self.latency + self.per_fetched_token * kv["tokens"] if fits else self.latency)
        if source is not None and (source.dead or source.core_dead or kv["key"] not in source.exports):
            return False
        if source is not None:
            blocks, _ = source.exports.pop(kv["key"])
            source.free += blocks
            source._wake.set()
        s.fetch = 0.0
        if fits:
            s.state, s.computed, s.cached = kv["state"], kv["tokens"], kv["tokens"]
            s.ends = [*kv["ends"]]
            for i in range(len(s.ends)):
                self._publish(s, i)
        return True

    # -- the engine

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()

    def _drop(self, s: _Sequence) -> None:
        if s in self.waiting:
            self.waiting.remove(s)
        elif s in self.running:
            self.running.remove(s)
        self.free += s.held
        s.held = 0
        self._wake.set()

    async def _run(self) -> None:
        while True:
            if not (self.running or self.waiting) or self.hung:
                self._wake.clear()
                await self._wake.wait()
            if self.hung:
                continue
            now = asyncio.get_running_loop().time()
            for key, (blocks, until) in [*self.exports.items()]:
                if now >= until:
                    del self.exports[key]
                    self.free += blocks
            plan, prompt_tokens = self._plan()
            if not plan:
                # All that waits waits for KV.
                await asyncio.sleep(self.step * self.slow)
                continue
            memory, arithmetic = self.step + self.per_sequence * len(plan), self.per_prompt_token * prompt_tokens
            cost = max(memory, arithmetic) if self.roofline else memory + arithmetic
            self.step_ends = now + cost * self.slow
            await asyncio.sleep(cost * self.slow)
            if self.hung:
                continue
            self.steps += 1
            self.computed_tokens += prompt_tokens
            for s, chunk in plan:
                if s.held:
                    self._advance(s, chunk)

    def _plan(self) -> tuple[list[tuple[_Sequence, int]], int]:
        plan: list[tuple[_Sequence, int]] = []
        budget = self.budget
        for s in [*self.running]:
            if s not in self.running:
                continue  # preempted for one before it
            chunk = min(len(s.ids) - s.computed, budget)
            if chunk <= 0 or not self._hold(s, -(-len(s.ids) // self.block_size)):
                continue
            plan.append((s, chunk))
            budget -= chunk
        for s in [*self.waiting]:
            if budget <= 0 or len(self.running) >= self.seqs:
                break
            if s.fetch:
                continue  # its KV is on the way: others may start
            need = -(-len(s.ids) // self.block_size)
            if need > self.free:
                break
            self.waiting.remove(s)
            self.running.append(s)
            self._hold(s, need)
            self._hit(s)
            chunk = min(len(s.ids) - s.computed, budget)
            plan.append((s, chunk))
            budget -= chunk
        plan = [(s, chunk) for s, chunk in plan if s.held]
        return plan, sum(chunk for s, chunk in plan if s.computed + chunk <= s.prompt or chunk > 1)

    def _hold(self, s: _Sequence, need: int) -> bool:
        while need - s.held > self.free:
            last = self.running[-1]
            if last is s:
                self._preempt(s)
                return False
            self._preempt(last)
        self.free -= need - s.held
        s.held = need
        return True

    def _preempt(self, s: _Sequence) -> None:
        self.preemptions += 1
        self.running.remove(s)
        self.free += s.held
        s.held, s.computed, s.state, s.ends = 0, 0, 1, []
        self.waiting.appendleft(s)

    def _hit(self, s: _Sequence) -> None:
        """The prefix that is cached need not be computed; one token always is."""
        while s.computed % self.block_size == 0 and s.computed + self.block_size < len(s.ids):
            after = absorb(s.state, s.ids[s.computed : s.computed + self.block_size])
            if after not in self._cache:
                break
            self._cache.move_to_end(after)
            s.state = after
            s.ends.append(after)
            s.computed += self.block_size
            s.cached = max(s.cached, s.computed)

    def _advance(self, s: _Sequence, chunk: int) -> None:
        end = s.computed + chunk
        while s.computed < end:
            # To the end of a block, or of the chunk.
            until = min(end, (s.computed // self.block_size + 1) * self.block_size)
            ids = s.ids[s.computed : until]
            if POISON in ids:
                self.kill_core()
                return
            s.state = absorb(s.state, ids)
            s.computed = until
            if until % self.block_size == 0:
                s.ends.append(s.state)
                self._publish(s, len(s.ends) - 1)
        if s.computed < len(s.ids):
            return
        params = s.call.params
        ends = not params.get("ignore_eos", False) and s.out >= (params.get("min_tokens") or 0)
        token = token_after(s.state, self.vocabulary, ends)
        s.ids.append(token)
        s.out += 1
        if s.out == 1 and s.call.kv is None:
            s.shared = s.cached // self.block_size
        finish = "stop" if token == EOS else "length" if s.out == s.call.max_tokens else None
        if s.out == 1 or finish is not None or s.out - s.told == self.stream_interval:
            kv = self._export(s) if finish == "length" and s.call.export else None
            tokens = tuple(s.ids[s.told - s.out :])
            s.queue.put_nowait(Piece(s.call.at + s.told, tokens, finish, kv, s.cached))
            s.told = s.out
        if finish is not None:
            self._drop(s)

    def _export(self, s: _Sequence) -> dict[str, Any]:
        covers = len(s.ids) - 1
        key, blocks = next(self._keys), s.held
        self.free -= blocks  # what it held and will give back now stays for the peer
        self.exports[key] = (
            blocks,
            asyncio.get_running_loop().time() + self.export_lease,
        )
        return {
            "source": self.name,
            "key": key,
            "tokens": covers,
            "blocks": blocks,
            "state": s.state,
            "ends": [*s.ends],
        }

    def _publish(self, s: _Sequence, i: int) -> None:
        """A request that begins as it does to the end of that block need not compute it."""
        state = s.ends[i]
        if state in self._cache or not self.cache_blocks:
            return
        self._cache[state] = None
        first = i * self.block_size
        self._events.append(
            (
                "stored",
                [state],
                s.ends[i - 1] if i else None,
                s.ids[first : first + self.block_size],
            )
        )
        if len(self._cache) > self.cache_blocks:
            old, _ = self._cache.popitem(last=False)
            self._events.append(("removed", [old]))
