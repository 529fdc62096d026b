# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One request at the front end: placed, streamed, moved while it runs, and tried again when an engine dies.

A session reads from legs: streams of one replica each. The client is served from one, and while the session moves there
are three more:

- the export, a request of one token more that asks the source for the KV of what the client has;
- the target, which goes on with it;
- the catch-up, because the source has gone on: a second request at the target, for what the client has by then.
  It shares the KV of the first one and computes the rest at once instead of token by token.

The source streams on until the first token of the target, or of the catch-up. If the move fails, the source has
never stopped. Every piece says its position, so the client gets each token once, whichever leg sends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Any

from tessera import _fleet
from tessera.fleet.replica import Call, Died, Failure, Piece, Refused, Timeouts

if TYPE_CHECKING:
    from tessera.fleet.carrier import Entry
    from tessera.fleet.router import Router

logger = logging.getLogger(__name__)


class _Inbox:
    """What legs have said, in order. One task waits for it."""

    def __init__(self) -> None:
        self._all: deque[tuple[_Leg, Piece | BaseException]] = deque()
        self._more: asyncio.Future[None] | None = None

    def put(self, leg: _Leg, what: Piece | BaseException) -> None:
        self._all.append((leg, what))
        wake(self._more)

    def take(self) -> tuple[_Leg, Piece | BaseException] | None:
        return self._all.popleft() if self._all else None

    async def more(self, seconds: float) -> None:
        """Returns when there is something, or after that many seconds."""
        if not self._all:
            self._more = asyncio.get_running_loop().create_future()
            await within(self._more, seconds)


def wake(waits: asyncio.Future[None] | None) -> None:
    if waits is not None and not waits.done():
        waits.set_result(None)


async def within(future: asyncio.Future[None], seconds: float) -> None:
    """Waits for it, at most `seconds`. `asyncio.wait_for` loses a cancellation that comes when the future is done,
    before Python 3.12."""
    timer = asyncio.get_running_loop().call_later(seconds, wake, future)
    try:
        await future
    finally:
        timer.cancel()


#: No token is above that.
largest_token = 2**31 - 1
#: No position is above that, and no number of tokens.
_longest = 2**40


def _checked(piece: Any) -> Piece:
    """The piece, if it is one."""
    if isinstance(piece, Piece) and all(isinstance(n, int) and 0 <= n <= _longest for n in (piece.at, piece.cached)):
        with contextlib.suppress(TypeError):
            tokens = [index(t) for t in piece.tokens]
            if not tokens or 0 <= min(tokens) <= max(tokens) <= largest_token:
                return piece._replace(tokens=tokens)
    raise Died(f"it sent what is not a fleet.Piece: {piece!r:.200}")


class _Leg:
    """A stream of one replica. Its pieces go to the inbox of the session."""

    def __init__(self, session: Session, entry: Entry, call: Call) -> None:
        self.entry = entry
        self.call = call
        self.has_first = False
        self.closed = False
        self._task = session._router._spawn(self._read(session._said))

    async def _read(self, inbox: _Inbox) -> None:
        stream = None
        try:
            stream = self.entry.replica.stream(self.call)
            async for said in stream:
                piece = _checked(said)
                inbox.put(self, piece)
                if piece.finish is not None:
                    return
            inbox.put(self, Died("the stream broke off"))
        except asyncio.CancelledError:
            if not self.closed:
                inbox.put(self, Died("the stream was cancelled"))
            raise
        except Exception as error:
            if not isinstance(error, Failure):
                # It counts as a death, but it may as well be a mistake in `stream`.
                logger.warning("the stream of %s raised", self.entry.name, exc_info=error)
            inbox.put(self, error)
        finally:
            if stream is not None:
                with contextlib.suppress(Exception):
                    await stream.aclose()

    def close(self) -> None:
        """Ignores all further pieces, and stops the engine."""
        self.closed = True
        self._task.cancel()


#: A target that is no more tokens behind the client is as near as a catch-up would bring it.
_near = 1


@dataclass
class _Move:
    """A request on its way elsewhere."""

    to: Entry
    until: float
    at: int
    export: _Leg | None = None
    extra: list[int] = field(default_factory=list)
    #: Whether engines share the KV of requests that begin alike, as the export has found.
    shares: bool = False
    target: _Leg | None = None
    catch_up: _Leg | None = None
    #: Tokens that the target was behind when the catch-up was asked for.
    behind: int = 0

    def legs(self) -> list[_Leg]:
        return [leg for leg in (self.export, self.target, self.catch_up) if leg is not None]

    def close(self) -> None:
        for leg in self.legs():
            leg.close()


class Session:
    """One request. Iterate over it once, for its `Piece`s: each token once and in order; the last has a `finish`.

    The engines stop when the loop is left or its task is cancelled. Close the session (`aclose`) if that must not wait
    for Python's garbage collection. Raises `Failure` when no other replica may be tried. Made by `Router.stream`.
    """

    def __init__(
        self,
        router: Router,
        prompt: Sequence[int],
        max_tokens: int,
        params: Mapping[str, Any],
        *,
        movable: bool,
        reasons: bool,
        end_of_reasoning: int | None,
        timeouts: Timeouts,
        about: Mapping[str, int],
    ) -> None:
        try:
            self.prompt = [index(t) for t in prompt]
            max_tokens = index(max_tokens)
        except TypeError:
            raise ValueError("a prompt is tokens, whole numbers, and max_tokens is one too") from None
        if not self.prompt or min(self.prompt) < 0 or max(self.prompt) > largest_token:
            raise ValueError(f"a prompt has at least one token, and each is from 0 to {largest_token}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens is at least 1, not {max_tokens}")
        for name, n in about.items():
            if not isinstance(n, int) or n < 0:
                raise ValueError(f"{name} is a whole number from 0, not {n!r}")
        self.max_tokens = max_tokens
        self.params = params
        self.movable = movable
        self.reasons = reasons
        self.timeouts = timeouts
        #: The answer as far as the client has it.
        self.got: list[int] = []
        #: Moves that came to an end, well or not, and what failed: for logs and tests.
        self.moves = 0
        self.moves_failed = 0
        self.failures: list[str] = []
        self.cached = 0
        self._router = router
        self._end_of_reasoning = end_of_reasoning
        self._stitch = _fleet.Stitch()
        self._retries = _fleet.Retries(timeouts.deaths, timeouts.tries)
        self._said = _Inbox()
        self._leg: _Leg | None = None
        self._move: _Move | None = None
        self._about = {name: n for name, n in about.items() if n}
        self._request = -1  # in the book
        self._turn = -1  # in the queue of those that wait for a place
        self._place: Entry | None = None  # decided, and not begun
        self._avoid: set[Entry] = set()  # those that have failed it
        self._base = 0  # tokens that it had when it was placed
        self._heard = 0.0
        self._closed = False
        # Only the loop over it holds it: it ends with the loop, and the request with it. The router has the session.
        self._pieces: weakref.ref[AsyncGenerator[Piece, None]] | None = None

    def __aiter__(self) -> AsyncIterator[Piece]:
        pieces = None if self._pieces is None else self._pieces()
        if pieces is None:
            if self._pieces is not None:
                self._close()  # its loop was left
            pieces = self._run()
            self._pieces = weakref.ref(pieces)
        return pieces

    async def aclose(self) -> None:
        """The client has gone. A task that waits for the next piece gets none."""
        leg = self._leg
        self._close()
        if leg is not None:
            self._said.put(leg, Died("the client has gone"))
        pieces = None if self._pieces is None else self._pieces()
        if pieces is not None:
            with contextlib.suppress(RuntimeError):  # A task waits for it.
                await pieces.aclose()

    @property
    def replica(self) -> str | None:
        """The replica that serves it now."""
        return None if self._leg is None else self._leg.entry.name

    def _take_place(self) -> Entry | None:
        """Where it is to begin, once."""
        place, self._place = self._place, None
        return None if place is None or place.gone else place

    # -- the loop

    async def _run(self) -> AsyncGenerator[Piece, None]:
        try:
            while not self._closed:
                if self._leg is None:
                    await self._open()
                    if self._closed:
                        return
                leg, what = await self._next()
                if self._closed:
                    return
                if leg.closed:
                    continue
                pieces = self._hear(leg, what) if isinstance(what, Piece) else self._failed(leg, what)
                for piece in pieces:
                    if piece.finish is not None:
                        self._close()  # whatever time the client takes over it
                    yield piece
                    if piece.finish is not None:
                        return
                if self._leg is None:
                    await asyncio.sleep(min(self.timeouts.again * 2 ** min(len(self.failures) - 1, 10), 2.0))
        finally:
            self._close()

    async def _open(self) -> None:
        """Finds a replica and begins there, unless the client goes. Raises `Refused` if there is none for long."""
        router = self._router
        entry = await router._place(self, self._avoid)
        if entry is None:
            return
        self._base = len(self.got)
        self._heard = router.now()
        call = Call(
            [*self.prompt, *self.got],
            len(self.got),
            self.max_tokens - len(self.got),
            router.name,
            self.params,
        )
        self._leg = _Leg(self, entry, call)

    async def _next(self) -> tuple[_Leg, Piece | BaseException]:
        """What comes next, silence included."""
        router = self._router
        while True:
            if (said := self._said.take()) is not None:
                return said
            self.look()
            leg, move = self._leg, self._move
            assert leg is not None
            limit = self._heard + (self.timeouts.token if leg.has_first else self.timeouts.first)
            if router.now() >= limit:
                return leg, Died(f"silent for {router.now() - self._heard:.1f} s")
            until = limit if move is None else min(limit, move.until)
            await self._said.more(until - router.now())

    def _hear(self, leg: _Leg, piece: Piece) -> list[Piece]:
        move = self._move
        if move is not None and leg is move.export:
            self._exported(move, piece)
            return []
        arrives = move is not None and leg is not self._leg
        if piece.finish in ("error", "abort"):
            # By an engine that lives: KV that never came, a fault inside, or it has put an end to what it had.
            if arrives:
                self.stay()
                return []
            no_kv = leg.call.kv is not None and not leg.has_first
            why = "did not get the KV" if no_kv else f"ended it: {piece.finish}"
            return self._give_up(leg, "refused", f"{leg.entry.name} {why}")
        if arrives:
            if not self._continues(leg, piece):
                self.stay()
                return []
            if leg is move.target and piece.finish is None and self._catches_up(move, piece.at + len(piece.tokens)):
                leg.has_first = True
                return []
            return [*self._switch(move, leg), *self._deliver(leg, piece)]
        return self._deliver(leg, piece)

    def _deliver(self, leg: _Leg, piece: Piece) -> list[Piece]:
        skip, take, hole = self._stitch.on(piece.at, len(piece.tokens))
        ahead = piece.at + len(piece.tokens) - self._stitch.delivered
        if hole or (piece.finish is not None and ahead > 0):
            return self._failed(leg, Died("left tokens out"))
        if piece.finish is not None and ahead < 0:
            # It does not say what the client has, and lives.
            return self._failed(leg, Refused("ended before what the client has"))
        self._heard = self._router.now()
        first, leg.has_first = not leg.has_first, True
        new = list(piece.tokens[skip : skip + take])
        left = self.max_tokens - len(self.got)
        if len(new) > left:
            # It goes on after its end.
            new = new[:left]
            piece = piece._replace(finish="length")
        self.got += new
        if len(self.got) == len(new):
            self.cached = piece.cached
        if first and leg.call.at == self._base:
            # Where it was placed: what a move finds is its own KV, come from a peer.
            self._router._cache_hit(self, piece.cached)
        if new:
            thought = 0
            if self.reasons and self._end_of_reasoning in new:
                self.reasons = False
                thought = new.index(self._end_of_reasoning) + 1
                self._router._answers(self, len(self.got) - len(new) + thought)
            if thought < len(new):
                self._router._progress(self)
            if first and piece.finish is None:
                self._router._has_first(self)
        if not new and piece.finish is None:
            return []
        return [Piece(len(self.got) - len(new), new, piece.finish, None, self.cached)]

    # -- failures

    def _failed(self, leg: _Leg, error: BaseException) -> list[Piece]:
        move = self._move
        kind = error.kind if isinstance(error, Failure) else "died"
        if kind == "died":
            self._router.suspect(leg.entry)
        elif kind == "unreachable":
            self._router.lost(leg.entry)
        if leg is not self._leg:
            # The source goes on. But what kills engines is not sent to many.
            if kind == "died" and move is not None and leg is not move.export:
                self._retries.after(kind)
            self.stay()
            return []
        said = f"{leg.entry.name}: {error}"
        if move is not None and move.target is not None and not move.to.gone and self._agrees(move.at, move.extra):
            # All that there was to export is on its way, or there: it goes on at the target of the move.
            leg.close()
            self._note(kind, said, leg, error)
            return self._switch(move, move.catch_up or move.target)
        return self._give_up(leg, kind, said, error)

    def _note(self, kind: str, said: str, leg: _Leg, error: BaseException | None = None) -> None:
        self.failures.append(said)
        self._router.failed += 1
        self._avoid.add(leg.entry)
        if not self._retries.after(kind):
            raise error if isinstance(error, Failure) else Died(said)

    def _give_up(self, leg: _Leg, kind: str, said: str, error: BaseException | None = None) -> list[Piece]:
        """Gives up the replica that serves it."""
        self.stay()
        leg.close()
        self._leg = None
        self._router._left(self, leg.entry)
        if len(self.got) == self.max_tokens:
            # Only the message that it ends is missing.
            return [Piece(len(self.got), (), "length", None, self.cached)]
        self._note(kind, said, leg, error)
        return []

    # -- moves

    def go(self, to: Entry) -> bool:
        """The book says that it is to go on there, where its room is reserved. False if it does not."""
        leg = self._leg
        if not self.movable or leg is None or not leg.has_first or self._move is not None or self._closed:
            return False
        # As many engines as it may kill have died, and there it would go to another.
        if self._retries.over:
            return False
        known = len(self.prompt) + len(self.got)
        generates, _, _, whole = _fleet.plan_export(known, self._router.block_size)
        # Its end is near, or only the target's own work would help.
        if not whole or self.max_tokens - len(self.got) <= 2 * generates:
            return False
        move = _Move(to, self._router.now() + self.timeouts.move, len(self.got))
        call = Call([*self.prompt, *self.got], len(self.got), generates, self._router.name, self.params, export=True)
        move.export = _Leg(self, leg.entry, call)
        self._move = move
        return True

    def _exported(self, move: _Move, piece: Piece) -> None:
        move.extra += piece.tokens
        if piece.finish is None:
            return
        ids = [*self.prompt, *self.got[: move.at], *move.extra]
        at = move.at + len(move.extra)
        if piece.kv is None or piece.finish != "length" or at >= self.max_tokens:
            self.stay()
            return
        move.shares = piece.cached >= self._router.block_size
        call = Call(ids, at, self.max_tokens - at, self._router.name, self.params, kv=piece.kv)
        move.target = _Leg(self, move.to, call)

    def _catches_up(self, move: _Move, at: int) -> bool:
        """Whether to wait for the target, which has said what is before `at`. It catches up with the client."""
        known = len(self.got)
        if known - at <= _near or not move.shares:
            return False
        if move.catch_up is not None:
            # A late catch-up is no nearer than the target is, which goes on all the time.
            return known - move.catch_up.call.at <= move.behind
        if self.max_tokens - known <= _near:
            return False
        move.behind = known - at
        call = Call([*self.prompt, *self.got], known, self.max_tokens - known, self._router.name, self.params)
        move.catch_up = _Leg(self, move.to, call)
        return True

    def _agrees(self, at: int, tokens: Sequence[int]) -> bool:
        """Whether these tokens are what the client has at `at`, as far as it has anything."""
        both = self.got[at : at + len(tokens)]
        return [*tokens[: len(both)]] == both

    def _continues(self, leg: _Leg, piece: Piece) -> bool:
        """Whether the target says what the source has said, as far as both have spoken, and does not end before it."""
        move = self._move
        assert move is not None
        begins = leg.has_first or piece.at == leg.call.at
        if piece.finish is not None and piece.at + len(piece.tokens) < len(self.got):
            return False
        return begins and self._agrees(move.at, move.extra) and self._agrees(piece.at, piece.tokens)

    def _switch(self, move: _Move, to: _Leg) -> list[Piece]:
        """It goes on at the target. Returns the part of the export that the client does not have."""
        source = self._leg
        if source is not None:
            source.close()
        for leg in move.legs():
            if leg is not to:
                leg.close()
        self._leg = to
        self._move = None
        self._heard = self._router.now()
        # If the move took so long that the book no longer has it at the target, the book must not keep it at the
        # source.
        if not self._router._moved(self, move.to) and source is not None:
            self._router._left(self, source.entry)
        self.moves += 1
        self._router.moved += 1
        has_first = to.has_first
        pieces = self._deliver(to, Piece(move.at, move.extra))
        to.has_first = has_first
        return pieces

    def look(self) -> None:
        """Time has passed. A session with a slow client has much to read before it would see that a move is overdue."""
        if self._move is not None and self._router.now() >= self._move.until:
            self.stay()

    def replica_gone(self, entry: Entry) -> None:
        """A replica is gone."""
        move = self._move
        for leg in (self._leg, *(move.legs() if move is not None else ())):
            if leg is not None and leg.entry is entry and not leg.closed:
                self._said.put(leg, Died("it is gone"))
        if move is not None and move.target is None and move.to is entry:
            self.stay()

    def stay(self) -> None:
        """Its move, if there is one, comes to nothing. The source has never stopped."""
        move = self._move
        if move is None:
            return
        move.close()
        self._move = None
        self.moves_failed += 1
        self._router.stayed += 1
        self._router._move_failed(self, move.to)

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.stay()
        if self._leg is not None:
            self._leg.close()
            self._leg = None
        self._router._forget(self)
