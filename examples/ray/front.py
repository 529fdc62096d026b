# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Between Ray Serve and `tessera.fleet`: replicas by their handle, and what Ray knows of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import ray
from ray.serve.handle import DeploymentHandle
from tessera.fleet import (
    AtFault,
    Call,
    Died,
    Load,
    Piece,
    Refused,
    Report,
    Router,
    Unreachable,
)

logger = logging.getLogger(__name__)

#: The request routers of this process's handles.
ray_routers: list[Any] = []

_failures = {
    "refused": Refused,
    "unreachable": Unreachable,
    "died": Died,
    "at_fault": AtFault,
}


class RayReplica:
    """One replica of the deployment of engines."""

    def __init__(self, handle: DeploymentHandle, name: str, actor: Any, pid: int) -> None:
        self._stream = handle.options(stream=True, method_name="stream")
        self._notify = handle.options(method_name="notify")
        self._name = name
        self._actor = actor
        #: For people; `told`: what it was told and has followed, by method.
        self.about: dict[str, Any] = {"pid": pid, "told": {}}

    async def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        said = {
            "ids": call.ids,
            "at": call.at,
            "max_tokens": call.max_tokens,
            "params": dict(call.params),
            "export": call.export,
            "kv": call.kv,
            "router": call.router,
            "pin": self._name,
        }
        response = self._stream.remote(said)
        try:
            async for item in response:
                if "failure" in item:
                    raise _failures[item["failure"]](item["why"])
                yield Piece(
                    item["at"],
                    item["tokens"],
                    item["finish"],
                    item["kv"],
                    item["cached"],
                )
        except ray.exceptions.RayError as error:
            raise Died(f"{type(error).__name__}") from None
        finally:
            # To drop it would not stop the engine.
            response.cancel()

    async def _told(self, method: str, *what: Any) -> None:
        why = await self._notify.remote({"pin": self._name, "method": method, "what": what})
        if why:
            raise RuntimeError(why)
        self.about["told"][method] = what

    async def become(self, role: str) -> None:
        await self._told("become", role)

    async def set_prefill_budget(self, tokens: int) -> None:
        await self._told("set_prefill_budget", tokens)

    async def set_order(self, parameter: str, value: float) -> None:
        await self._told("set_order", parameter, value)

    async def set_length_range(self, first: int, last: int | None) -> None:
        await self._told("set_length_range", first, last)

    async def fence(self) -> None:
        """An engine that hangs, or that has a dead core, is killed; Ray starts another. A worker may serve KV for a
        moment yet."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self._actor)
        await asyncio.sleep(1.0)


def report_of(said: dict[str, Any]) -> Report:
    return Report(
        epoch=said["epoch"],
        all=Load(*said["all"]),
        by_router={name: Load(*load) for name, load in said["by_router"].items()},
        free=said["free"],
        events=said.get("events", ()),
    )


async def watch(
    router: Router,
    handle: DeploymentHandle,
    period: float = 0.1,
    forget: float = 60.0,
    prefill: int = 0,
    **join: Any,
) -> None:
    """Tells the router what Ray knows: which replicas have come, what they report, which have gone. It never ends by
    itself: without it the router would hear of no replica any more.

    With `prefill`, so many replicas join to compute prompts, and the others to decode. A replica that comes for one
    that is gone has the role that is missing.

    A replica that is not listed gets nothing new. It is gone when it was not listed for `forget` seconds and has no
    requests. Ray may list none for a moment. Ray may also list a dead one, which it had dropped, until its controller
    has noticed."""
    seen: dict[str, float] = {}  # when Ray last listed it; a name is not given twice
    told: set[str] = set()  # names that the log says something of, once
    while True:
        try:
            known = (
                {r.replica_id.unique_id: r for r in [*ray_routers[-1].curr_replicas.values()]} if ray_routers else {}
            )
            for name, replica in known.items():
                try:
                    role = role_of_next(router, known, prefill)
                    take(router, handle, name, replica, seen, {**join, "role": role})
                    told.discard(name)
                except Exception as error:
                    # Others are well. It may have a place later: when one that leaves has ended its requests.
                    if name not in told:
                        logger.warning("%s does not join, or its report is invalid", name, exc_info=error)
                    told.add(name)
            now = router.now()
            seen.update((name, now) for name in known if name in seen)
            for name in router.names():
                entry = router.entry(name)
                if name in known or entry is None:
                    continue
                # Dead, or on its way down: its requests end, or break by themselves.
                router.lost(entry)
                if now - seen.get(name, 0.0) >= forget and router.book.own(entry.number)[0] == 0:
                    router.gone(name)
            seen = {name: when for name, when in seen.items() if now - when < forget or router.entry(name)}
            told &= {*known}
            router.tick()
        except Exception as error:
            logger.warning("watching replicas failed once and continues", exc_info=error)
        await asyncio.sleep(period)


def role_of_next(router: Router, known: Iterable[str], prefill: int) -> str:
    """The role of a replica that joins now, where so many of those that Ray knows compute prompts."""
    if not prefill:
        return "mixed"
    entries = [router.entry(name) for name in known]
    there = sum(e is not None and e.role == "prefill" for e in entries)
    return "prefill" if there < prefill else "decode"


def take(
    router: Router, handle: DeploymentHandle, name: str, replica: Any, seen: dict[str, float], join: dict[str, Any]
) -> None:
    """A replica that Ray knows: it joins if it is new, and its report is read."""
    said = replica.routing_stats
    if not said:
        return  # it has not reported yet, so its size is unknown
    if name not in seen:
        router.add(
            name,
            RayReplica(handle, name, replica._actor_handle, said["pid"]),
            said["capacity"],
            can=said.get("can"),
            **join,
        )
        seen[name] = router.now()
    router.report(name, report_of(said))
