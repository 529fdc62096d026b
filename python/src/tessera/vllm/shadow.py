# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shadow mode: vLLM's own scheduler decides, and a policy of ours is watched beside it.

The shadow has the same requests and as much memory. At each of vLLM's steps it plans and settles one of its own, which
is taken to last as long as vLLM's. It does not know how long an answer will be before vLLM does. Where it is ahead, it
goes on, and is set right when vLLM ends the request. (The tokens beyond the end are counted as `overrun`.) Nothing of
it reaches vLLM's requests or the runner; if it fails, it is switched off, with one warning.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Iterable
from typing import Any

from tessera.vllm import _api as api
from tessera.vllm._core import Describer, chunk_of, make_core
from tessera.vllm.options import OptionsError
from tessera.vllm.support import budget_of, why_not_memory, why_not_request, why_not_shadow

logger = api.init_logger("vllm.tessera.shadow")

#: Seconds between two reports in the log.
report_every = 60.0
#: Times are those of this many requests, the latest. They are sorted in the engine's loop.
latest = 4096


class ShadowRequest:
    """A request as the shadow has it."""

    def __init__(self, request: Any, now: float) -> None:
        self.request = request
        self.arrived = now
        self.slot = -1
        self.everything = list(request.prompt_token_ids)
        self.output: list[int] = []
        self.prompt = len(self.everything)
        self.tokens = array("d")  #: when the shadow had each of its tokens
        self.measured = array("d")  #: when vLLM had them
        self.last: int | None = None  #: tokens of the whole answer, once vLLM knows
        self.gone = False  #: the shadow has ended it
        # What the core writes to.
        self.status: Any = None
        self.stop_reason: Any = None
        self.num_preemptions = 0
        self.is_prefill_chunk = False


def _make_output(request_id: str, tokens: list[int]) -> Any:
    return _Output()


class _Output:
    finish_reason = None
    stop_reason = None


def _spread(values: Iterable[float]) -> dict[str, float]:
    values = sorted(values)
    if not values:
        return {"count": 0}
    return {
        "count": len(values),
        "mean": sum(values) / len(values),
        "p50": values[len(values) // 2],
        "p99": values[min(len(values) - 1, int(len(values) * 0.99))],
    }


def _pair() -> dict[str, deque[float]]:
    """Times of the latest requests only: a service goes on for months."""
    return {name: deque(maxlen=latest) for name in ("measured", "predicted")}


class ShadowScheduler:
    """The policy that is watched, and what it would have done."""

    def __init__(self, scheduler: Any, options: Any, kv_cache_config: Any, block_size: int) -> None:
        self.options = options
        self.config = scheduler.vllm_config.scheduler_config
        self.budget = budget_of(self.config)
        self.describer = Describer(options, scheduler.vllm_config)
        self.has_adapters = scheduler.vllm_config.lora_config is not None
        self.requests: dict[str, ShadowRequest] = {}
        self.behind: dict[
            str, ShadowRequest
        ] = {}  #: those that vLLM has ended and the shadow has not, oldest end first
        self.most_behind = 4 * self.config.max_num_seqs + 1024
        self.steps = self.same = self.overrun = self.aborted = self.dropped = 0
        self.ns = {"vllm": 0, "tessera": 0}
        self.times = {name: _pair() for name in ("ttft", "tpot", "e2e")}
        self.in_core: dict[str, Any] = {}
        words = (
            "status_running status_preempted status_stopped status_length reason_stop reason_length reason_repetition"
        )
        self.core = make_core(
            options,
            scheduler.vllm_config,
            kv_cache_config,
            block_size,
            False,
            {
                "output": _make_output,
                **dict.fromkeys(words.split()),
                "repeats": lambda request: False,
                "asks": None,
                "requests": self.in_core,
            },
        )

    def add(self, request: Any) -> None:
        if why_not_request(request, self.has_adapters) is not None:
            return
        now = time.monotonic()
        shadow = ShadowRequest(request, now)
        try:
            description = self.describer.describe(request, shadow.output, shadow.everything)
            # When it ends, vLLM says; the shadow counts.
            description |= {"eos": -1, "stops": [], "client": 0, "watched": False, "repetitive": False}
            begin = time.thread_time_ns()
            slot = self.core.submit(shadow, description, now)
            self.ns["tessera"] += time.thread_time_ns() - begin
        except Exception:  # it would be refused; the others are watched on
            slot = None
        if not isinstance(slot, int):
            self.describer.ended(request, is_whole=False)
            return
        shadow.slot = slot
        self.requests[request.request_id] = shadow
        self.in_core[request.request_id] = shadow

    def abort(self, request_id: str) -> None:
        shadow = self.requests.pop(request_id, None)
        if shadow is not None:
            self.behind.pop(request_id, None)
            self.aborted += 1
            self.describer.ended(shadow.request, is_whole=False)
            self._end(shadow)

    def _end(self, shadow: ShadowRequest) -> None:
        if not shadow.gone:
            shadow.gone = True
            self.in_core.pop(shadow.request.request_id, None)
            self.core.cancel(shadow.slot)

    def reset(self) -> None:
        self.core.reset()

    def step(self, theirs: Any, outputs: dict[int, Any], admit: bool) -> None:
        """A step of vLLM's has come to its end: one of ours, and what both have come to."""
        now = time.monotonic()
        ours: set[str] = set()
        if self.in_core:
            ours = self._plan(now, admit)
        if theirs.num_scheduled_tokens:
            self.steps += 1
            self.same += ours == theirs.num_scheduled_tokens.keys()
        for one in outputs.values():
            for output in one.outputs:
                shadow = self.requests.get(output.request_id)
                if shadow is None:
                    continue
                shadow.measured.extend([now] * len(output.new_token_ids))
                if output.finish_reason is not None:
                    shadow.last = len(shadow.measured)
                    self.behind[output.request_id] = shadow
                    ours.add(output.request_id)
        # Requests that are behind and not in `ours` are where they were.
        for request_id in ours & self.behind.keys():
            self._settle(request_id)
        while len(self.behind) > self.most_behind:
            self._drop(next(iter(self.behind)))

    def _plan(self, now: float, admit: bool) -> set[str]:
        begin = time.thread_time_ns()
        chunk = chunk_of(self.config, len(self.in_core), self.budget)
        counts, _, fresh, ids, resumed, _, _, computed, *_ = self.core.schedule(now, self.budget, chunk, admit, False)
        self.ns["tessera"] += time.thread_time_ns() - begin
        if not counts:
            return set()
        first = dict(zip(ids, computed, strict=True))
        first.update((g.request.request_id, start) for g, _, start, _, _ in fresh)
        names, sampled = list(counts), []
        for request_id in names:
            shadow = self.in_core[request_id]
            generated = len(shadow.tokens)
            if first[request_id] + counts[request_id] < shadow.prompt + generated:
                sampled.append([])
                continue
            # vLLM's token, if it has come so far.
            known = shadow.request._output_token_ids
            sampled.append([known[generated] if generated < len(known) else 0])
            shadow.tokens.append(now)
        places = {request_id: i for i, request_id in enumerate(names)}
        begin = time.thread_time_ns()
        _, _, ended, failed = self.core.update(places, names, sampled, now)
        self.ns["tessera"] += time.thread_time_ns() - begin
        for shadow in ended:
            shadow.gone = True
        for shadow, _ in failed:
            # vLLM's token for it is none.
            shadow.gone = True
            del self.in_core[shadow.request.request_id]
            self.abort(shadow.request.request_id)
        return set(names)

    def _settle(self, request_id: str) -> None:
        """vLLM has ended a request: the shadow ends it as soon as it has come as far."""
        shadow = self.requests[request_id]
        n = shadow.last or 0
        if len(shadow.tokens) < n and not shadow.gone:
            return
        self._forget(request_id)
        self.overrun += max(len(shadow.tokens) - n, 0)
        if n == 0 or len(shadow.tokens) < n:
            return
        for name, times in (("measured", shadow.measured), ("predicted", shadow.tokens)):
            self.times["ttft"][name].append(times[0] - shadow.arrived)
            self.times["e2e"][name].append(times[n - 1] - shadow.arrived)
            if n > 1:
                self.times["tpot"][name].append((times[n - 1] - times[0]) / (n - 1))

    def _drop(self, request_id: str) -> None:
        """A policy that is slower than vLLM's falls behind ever more: what of it is kept has a bound."""
        self._forget(request_id)
        self.dropped += 1

    def _forget(self, request_id: str) -> None:
        """A request that vLLM has ended."""
        shadow = self.requests.pop(request_id)
        del self.behind[request_id]
        self.describer.ended(shadow.request, is_whole=True)
        self._end(shadow)

    def report(self, times: Iterable[str] = ("ttft", "tpot", "e2e")) -> dict[str, Any]:
        """What it would have done. Times are in seconds, of the latest requests that both have ended. Those that were
        `dropped`, because the shadow was too far behind, are left out. Costs are in us per step."""
        steps = max(self.steps, 1)
        return {
            "policy": self.options.policy,
            "steps": self.steps,
            "same_batch": self.same / steps,
            "cost_us": {name: ns / 1000 / steps for name, ns in self.ns.items()},
            **{of: {name: _spread(values) for name, values in self.times[of].items()} for of in times},
            "overrun": self.overrun,
            "aborted": self.aborted,
            "dropped": self.dropped,
            "not_ended": len(self.requests),
        }


#: The times that a line in the log has.
_logged = ("ttft", "tpot")


def _line(report: dict[str, Any]) -> str:
    def pair(name: str) -> str:
        measured, predicted = report[name]["measured"], report[name]["predicted"]
        if not measured["count"]:
            return f"{name} none yet"
        return (
            f"{name} mean {measured['mean']:.3f} -> {predicted['mean']:.3f} s, "
            f"P99 {measured['p99']:.3f} -> {predicted['p99']:.3f} s"
        )

    cost = report["cost_us"]
    dropped = f"; {report['dropped']} requests dropped, too far behind" if report["dropped"] else ""
    return (
        f"shadow of {report['policy']}: {'; '.join(map(pair, _logged))}; "
        f"{report['ttft']['measured']['count']} requests; "
        f"scheduling {cost['vllm']:.0f} -> {cost['tessera']:.0f} us a step; the same batch in "
        f"{100 * report['same_batch']:.0f} % of {report['steps']} steps; {report['overrun']} tokens too many{dropped}"
    )


def _shadowed(own: type) -> type:
    class WatchedScheduler(own):  # type: ignore[misc, valid-type]
        """vLLM's own scheduler, watched."""

        shadow: ShadowScheduler | None = None
        _reported = 0.0

        def _watch(self, what: Any, *arguments: Any) -> None:
            """Nothing that goes wrong in the shadow is to be seen outside."""
            if self.shadow is None:
                return
            try:
                what(self.shadow, *arguments)
            except Exception:
                logger.warning("tessera's shadow has failed and is switched off", exc_info=True)
                self.shadow = None

        def add_request(self, request: Any) -> None:
            super().add_request(request)
            # Else it was more of one that is known, or the end of that one's input.
            if self.requests.get(request.request_id) is request:
                self._watch(ShadowScheduler.add, request)

        def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> Any:
            ended = super().finish_requests(request_ids, finished_status)
            for request in ended:
                self._watch(ShadowScheduler.abort, request.request_id)
            return ended

        def schedule(self, *arguments: Any, **named: Any) -> Any:
            begin = time.thread_time_ns()
            output = super().schedule(*arguments, **named)
            if self.shadow is not None:
                self.shadow.ns["vllm"] += time.thread_time_ns() - begin
            return output

        def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
            begin = time.thread_time_ns()
            outputs = super().update_from_output(scheduler_output, model_runner_output)
            if self.shadow is not None:
                self.shadow.ns["vllm"] += time.thread_time_ns() - begin
            admit = self.pause_state == api.PauseState.UNPAUSED
            self._watch(ShadowScheduler.step, scheduler_output, outputs, admit)
            now = time.monotonic()
            if self.shadow is not None and now - self._reported >= report_every:
                if self._reported:
                    logger.info(_line(self.shadow.report(_logged)))
                self._reported = now
            return outputs

        def reset_prefix_cache(self, *arguments: Any, **named: Any) -> bool:
            done = super().reset_prefix_cache(*arguments, **named)
            if done:
                self._watch(ShadowScheduler.reset)
            return done

        def shutdown(self) -> None:
            if self.shadow is not None:
                logger.info(_line(self.shadow.report(_logged)))
                self.shadow.core.close()
                self.shadow = None
            super().shutdown()

    return WatchedScheduler


_classes: dict[type, type] = {}


def make_shadow(options: Any, vllm_config: Any, kv_cache_config: Any, som: Any, block_size: int, **rest: Any) -> Any:
    """vLLM's own scheduler for a configuration, with a policy of ours watched beside it."""
    own = api.own_scheduler(vllm_config)
    reasons = [*why_not_shadow(vllm_config), *why_not_memory(kv_cache_config, block_size, vllm_config)]
    if reasons:
        logger.warning("tessera does not support %s: it watches nothing", "; ".join(reasons))
        return own(vllm_config, kv_cache_config, som, block_size, **rest)
    if own not in _classes:
        _classes[own] = _shadowed(own)
    made = _classes[own](vllm_config, kv_cache_config, som, block_size, **rest)
    try:
        made.shadow = ShadowScheduler(made, options, kv_cache_config, block_size)
    except OptionsError:
        raise
    except Exception:
        logger.warning("tessera's shadow could not be made: it watches nothing", exc_info=True)
        return made
    logger.info("tessera watches: %s %s; vLLM's own scheduler decides", options.policy, options.parameters or "")
    return made
