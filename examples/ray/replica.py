# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A replica: an engine in an actor of Ray's. What fails is said, not thrown: an exception of an engine's own type would
be imported by every process that hears of it."""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import socket
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from tessera.fleet import AtFault, Call, Died, Failure, Load, Piece, Refused, Report, abilities_of, notify, takes

logger = logging.getLogger(__name__)


class Engine:
    """The deployment of engines. `kind`: "vllm" or "fake"; `options`: of `VllmEngine` or `FakeEngine`."""

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self._engine: Any
        if kind == "fake":
            from fake_engine import FakeEngine

            # Each replica by a name of its own: an engine takes the KV of another, and not its own.
            self._engine = FakeEngine(**{"name": uuid.uuid4().hex, **options})
        else:
            self._engine = VllmEngine(**options)

    async def stream(self, said: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        if said.get("misrouted"):
            yield {"failure": "unreachable", "why": f"{said['pin']} is not there"}
            return
        call = Call(
            said["ids"],
            said["at"],
            said["max_tokens"],
            said["router"],
            params_of(said),
            said["export"],
            said["kv"],
        )
        pieces = self._engine.stream(call)
        try:
            async for p in pieces:
                yield {
                    "at": p.at,
                    "tokens": [*p.tokens],
                    "finish": p.finish,
                    "kv": p.kv,
                    "cached": p.cached,
                }
        except Failure as error:
            yield {"failure": error.kind, "why": str(error)}
        except Exception as error:
            logger.warning("an engine raised what it should not", exc_info=error)
            yield {"failure": "died", "why": type(error).__name__}
        finally:
            await pieces.aclose()

    async def record_routing_stats(self) -> dict[str, Any]:
        """What Ray hands to every router."""
        said: Report = await self._engine.report()
        return {
            "epoch": said.epoch,
            "all": tuple(said.all),
            "by_router": {name: tuple(load) for name, load in (said.by_router or {}).items()},
            "free": said.free,
            "events": [*said.events],
            "capacity": self._engine.blocks,
            "can": [what for what in abilities_of(self._engine) if what not in self._engine.cannot],
            "pid": os.getpid(),
        }

    async def notify(self, said: dict[str, Any]) -> str:
        """What a controller wants of it: a method and its arguments. Returns why not; "" if it is done."""
        if said.get("misrouted"):
            return f"{said['pin']} is not there"
        try:
            await notify(self._engine, said["method"], *said["what"])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def check_health(self) -> None:
        if self._engine.core_dead:
            raise RuntimeError("the engine is dead")

    async def about(self) -> dict[str, Any]:
        """For tests, and for people."""
        return {
            "pid": os.getpid(),
            "live": self._engine.live,
            **getattr(self._engine, "about", dict)(),
        }

    async def fault(self, name: str) -> None:
        """For tests, of fake engines: "kill_core", or an attribute that is set, as "hung"."""
        what = getattr(self._engine, name)
        if callable(what):
            what()
        else:
            setattr(self._engine, name, True)


def params_of(said: dict[str, Any]) -> dict[str, Any]:
    """Sampling of a call. `min_tokens` is that of the whole answer: an engine that goes on, or is asked for some
    tokens, has less to say."""
    params: dict[str, Any] = said["params"]
    least = params.get("min_tokens")
    if not least or not (said["at"] or said["export"]):
        return params
    return {**params, "min_tokens": min(max(least - said["at"], 0), said["max_tokens"])}


class VllmEngine:
    """vLLM's engine. With `moves` requests may leave and come while they run, over NIXL; with `events` its reports say
    what is cached. Tessera's scheduler decides, by `policy`, where it can serve such an engine; else vLLM's own."""

    def __init__(
        self,
        model: str,
        *,
        moves: bool = False,
        events: bool = False,
        policy: str = "fcfs",
        end_of_reasoning: int | None = None,
        lease: int = 30,
        engine: dict[str, Any] | None = None,
    ) -> None:
        os.environ.setdefault("VLLM_NIXL_SIDE_CHANNEL_PORT", str(free_port()))
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        options: dict[str, Any] = {
            "model": model,
            "enable_prefix_caching": True,
            "scheduler_cls": "tessera.vllm.Scheduler",
            "additional_config": {"tessera": scheduling(policy, end_of_reasoning)},
            **(engine or {}),
        }
        if moves:
            options.setdefault("async_scheduling", False)  # KV comes and goes between two steps
            options["kv_transfer_config"] = {
                "kv_connector": "NixlConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {"kv_lease_duration": lease},
                **options.pop("kv_transfer_config", {}),
            }
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        if events:
            from vllm.config import KVEventsConfig

            options["kv_events_config"] = KVEventsConfig(
                enable_kv_cache_events=True,
                publisher="zmq",
                endpoint=endpoint.replace("127.0.0.1", "*"),
            )
        args = AsyncEngineArgs(**options)
        self._stats: dict[str, Any] = {}
        self._llm = AsyncLLM.from_engine_args(args, stat_loggers=[self._logger])
        cache = self._llm.vllm_config.cache_config
        self.blocks: int = cache.num_gpu_blocks - 1  # block 0 belongs to no request
        self.block_size: int = cache.block_size
        self.vocabulary: int = self._llm.vllm_config.model_config.get_vocab_size()
        #: What it cannot do, though it has the methods.
        self.cannot: tuple[str, ...] = () if moves else ("moves", "live_moves")
        if not takes_options(self._llm):
            self.cannot += ("budgets", "orders")
        self._events: Any = None
        if events:
            from kv_events import KvEvents

            self._events = KvEvents(endpoint)
        self._epoch = 0
        self._names = itertools.count(1)
        # Router, tokens, whether it has one of its own, tokens when it came, blocks found in the prefix cache.
        self._all: dict[str, list[Any]] = {}

    def _logger(self, config: Any, index: int = 0) -> Any:
        from vllm.v1.metrics.loggers import StatLoggerBase

        stats = self._stats

        class Latest(StatLoggerBase):
            def __init__(self) -> None: ...
            def record(
                self,
                scheduler_stats: Any,
                iteration_stats: Any,
                *args: Any,
                **kwargs: Any,
            ) -> None:
                if scheduler_stats is not None:
                    stats["usage"] = scheduler_stats.kv_cache_usage

            def log_engine_initialized(self) -> None: ...

        return Latest()

    @property
    def core_dead(self) -> bool:
        return bool(self._llm.errored)

    @property
    def live(self) -> int:
        return len(self._all)

    def about(self) -> dict[str, Any]:
        config = self._llm.vllm_config
        return {
            "blocks": self.blocks,
            "block_size": self.block_size,
            "usage": self._stats.get("usage", 0.0),
            "scheduler": str(config.scheduler_config.scheduler_cls),
        }

    async def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        # Without a tokenizer vLLM does not look, and its core dies of a token that has no row in the model.
        strange = max([*call.ids, *(t for t in call.params.get("stop_token_ids") or () if isinstance(t, int))])
        if strange >= self.vocabulary:
            raise AtFault(f"there is no token {strange}: the model has {self.vocabulary}")
        name = f"{call.router}-{next(self._names)}"
        kv = dict(call.kv) if call.kv is not None else None
        if kv is not None and not takes(len(kv["remote_block_ids"][0]), len(call.ids), self.block_size):
            # It would take the wrong blocks, or die of it. It computes anew, and the peer may free them.
            await self._llm.notify_kv_transfer_request_rejected(f"{name}-kv", {**kv, "do_remote_prefill": True})
            kv = None
        if call.export:
            kv = {"do_remote_decode": True}
        try:
            params = SamplingParams(
                max_tokens=call.max_tokens,
                detokenize=False,
                output_kind=RequestOutputKind.DELTA,
                extra_args={"kv_transfer_params": kv} if kv is not None else None,
                **call.params,
            )
        except Exception as error:
            raise failure_of(error, dead=False) from None
        state = self._all[name] = [call.router, len(call.ids), False, len(call.ids), 0]
        at = call.at
        try:
            async for out in self._llm.generate({"prompt_token_ids": [*call.ids]}, params, name):
                tokens = [*out.outputs[0].token_ids]
                state[1] += len(tokens)
                if not state[2] and call.kv is None:
                    state[4] = (out.num_cached_tokens or 0) // self.block_size
                state[2] = True
                finish = out.outputs[0].finish_reason if out.finished else None
                handed = out.kv_transfer_params if out.finished and call.export else None
                yield Piece(at, tokens, finish, handed, out.num_cached_tokens or 0)
                at += len(tokens)
        except Exception as error:
            raise failure_of(error, self.core_dead) from None
        finally:
            self._all.pop(name, None)

    async def set_option(self, name: str, value: float) -> None:
        """An option of the scheduler, while it runs."""
        await importlib.import_module("tessera.vllm").set_option(self._llm, name, value)

    async def report(self) -> Report:
        if self.core_dead:
            raise RuntimeError("the engine is dead")
        self._epoch += 1
        by_router: dict[str, Load] = {}
        for router, length, has_first, came, shared in self._all.values():
            size = -(-length // self.block_size)
            # A shared block counts for the request that computed it.
            load = Load(1, size - shared, 0) if has_first else Load(1, 0, size, prefill=float(came))
            before = by_router.get(router, Load())
            by_router[router] = Load(*(a + b for a, b in zip(before, load, strict=True)))
        total = Load(*(sum(x) for x in zip(Load(), *by_router.values(), strict=True)))
        free = round((1 - self._stats.get("usage", 0.0)) * self.blocks) if self._all else self.blocks
        # What is in use, whichever request computed it: a shared prefix outlives the request that it counts for.
        total = total._replace(kv_held=float(max(total.kv_held, self.blocks - free)))
        events = [] if self._events is None else await self._events.take()
        return Report(
            self._epoch,
            total,
            by_router,
            free,
            events=events,
        )


def scheduling(policy: str, end_of_reasoning: int | None) -> dict[str, Any]:
    """What `tessera.vllm.Scheduler` is told."""
    from tessera.vllm.options import knows_phases

    if end_of_reasoning is None or policy not in knows_phases:
        return {"policy": policy}
    return {"policy": policy, "end_of_reasoning": end_of_reasoning}


def takes_options(llm: Any) -> bool:
    """Whether options of a running scheduler can be changed: tessera's, of a version that can."""
    has = hasattr(importlib.import_module("tessera.vllm"), "set_option")
    return has and "tessera" in str(llm.vllm_config.scheduler_config.scheduler_cls)


def failure_of(error: Exception, dead: bool) -> Failure:
    """What an exception of vLLM's means for the request. `dead`: the engine is. An engine that counts as dead is
    killed, and the next engine has the request. So a parameter that vLLM rejects must not look like a death."""
    if isinstance(error, of_vllm("v1.engine.exceptions", "EngineDeadError")):
        return Died("the engine is dead")
    if isinstance(error, of_vllm("exceptions", "VLLMClientError")):
        return AtFault(str(error))
    if isinstance(error, of_vllm("exceptions", "GracefulHTTPError")):
        return Refused(str(error))
    if dead:
        return Died("the engine is dead")
    # What Python says of values, vLLM wraps: a number too large for its messages, a list of the wrong things.
    for wrong in (error, error.__cause__):
        if isinstance(wrong, (TypeError, ValueError, OverflowError)):
            return AtFault(str(wrong))
    logger.warning("vLLM raised", exc_info=error)
    return Died(type(error).__name__)


def of_vllm(module: str, name: str) -> tuple[type[Exception], ...]:
    """An exception of vLLM's, for `isinstance`; none where this version does not have it."""
    try:
        found = getattr(importlib.import_module(f"vllm.{module}"), name, None)
    except ImportError:
        return ()
    return (found,) if isinstance(found, type) else ()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
