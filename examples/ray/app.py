# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An OpenAI-compatible endpoint before engines on Ray Serve, placed and moved by tessera's policies.

python examples/ray/app.py --engine fake --replicas 4
python examples/ray/app.py --model MODEL --replicas 2 --policy least_load --moves
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

here = str(Path(__file__).resolve().parent)
sys.path.insert(0, here)
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (here, os.environ.get("PYTHONPATH")) if p)
os.environ.setdefault("RAY_SERVE_ENABLE_HA_PROXY", "0")

import openai_api  # noqa: E402
import ray  # noqa: E402
from ray import serve  # noqa: E402
from ray.serve.config import RequestRouterConfig  # noqa: E402
from ray.serve.handle import DeploymentHandle  # noqa: E402
from replica import Engine  # noqa: E402

api = openai_api.make_api()


@serve.deployment(max_ongoing_requests=100_000, ray_actor_options={"num_cpus": 0.1})
@serve.ingress(api)
class Front:
    """The front end: tokenizer, sessions, the book. One of them; with several each has a book of its own."""

    def __init__(self, engines: DeploymentHandle, o: dict[str, Any]) -> None:
        import front
        import tokens
        from tessera import fleet
        from tessera.fleet.planner import LayoutPlanner

        self._engines = engines
        router = fleet.Router(
            o["policy"],
            controller=o["controller"],
            record=o["record"],
            block_size=o["block_size"],
            tight=o["tight"],
            timeouts=fleet.Timeouts(token=o["hang"], first=o["first"]),
            planner=LayoutPlanner(**o["planner"]) if o["planner"] else None,
            **o["settings"],
        )
        openai_api.backend = openai_api.Backend(
            router,
            tokens.OfModel(o["tokenizer"]) if o["tokenizer"] else tokens.Numbers(),
            o["model"],
            o["longest"],
            o["end_of_reasoning"],
        )
        # To ask for something makes Ray's router, which then hears of replicas by itself.
        self._first = asyncio.ensure_future(self._ask())
        self._watch = asyncio.ensure_future(
            front.watch(router, engines, prefill=o["prefill"], prefill_budget=o["prefill_budget"])
        )

    async def _ask(self) -> None:
        await self._engines.about.remote()


def deploy(o: argparse.Namespace) -> Any:
    import router

    if o.engine == "fake":
        engine = {
            "blocks": 512,
            "block_size": o.block_size,
            "moves": o.moves,
            **json.loads(o.engine_options),
        }
    else:
        options = {"block_size": o.block_size, **json.loads(o.engine_options)}
        events = (o.controller or o.policy).replace("_", "-") in ("lmetric", "prefix-affinity", "dual-map")
        engine = {
            "model": o.model,
            "moves": o.moves,
            "events": events,
            "policy": o.scheduler,
            "end_of_reasoning": o.end_of_reasoning,
            "engine": options,
        }
    engines = serve.deployment(Engine, name="engines").options(
        num_replicas=o.replicas,
        # The book counts, and nothing is refused but by engines.
        max_ongoing_requests=100_000,
        ray_actor_options={
            "num_cpus": o.cpus,
            **({"num_gpus": o.gpus} if o.gpus else {}),
        },
        health_check_period_s=1,
        health_check_timeout_s=60,
        graceful_shutdown_timeout_s=2,
        request_router_config=RequestRouterConfig(
            request_router_class=router.FleetRouter,
            request_routing_stats_period_s=o.period,
            request_routing_stats_timeout_s=max(1.0, 4 * o.period),
        ),
    )
    return Front.bind(
        engines.bind(o.engine, engine),
        {
            "policy": None if o.controller else o.policy,
            "controller": o.controller,
            "record": o.record,
            "block_size": o.block_size,
            "tight": o.tight if o.moves else 0,
            "hang": o.hang,
            "first": o.first,
            "settings": settings(o),
            "planner": planner(o),
            "prefill": o.prefill,
            "tokenizer": "" if o.engine == "fake" else o.model,
            "model": o.name or o.model,
            "longest": o.longest,
            "end_of_reasoning": o.end_of_reasoning,
            "prefill_budget": o.prefill_budget,
        },
    )


def settings(o: argparse.Namespace) -> dict[str, Any]:
    """The book's. While Ray replaces replicas there are twice as many: those that leave keep their places until their
    requests have ended. Without --moves engines hand no KV over, whatever the policy would like."""
    moves = {} if o.moves else {"moves": "none"}
    costs = {}
    if how := planner(o):
        from tessera import sim

        costs = sim.router_costs(how["profile"], ttft=how.get("ttft"))
    return {"replicas": max(64, 2 * o.replicas), **moves, **costs, **json.loads(o.settings)}


def planner(o: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `LayoutPlanner`; none if no plans are made. The front end may be on another machine: it gets
    what a profile's file says, not its name."""
    if not o.planner:
        return {}
    how = {"profile": "h100-96gb-qwen-32b", "block_size": o.block_size, **json.loads(o.planner)}
    if isinstance(how["profile"], str) and Path(how["profile"]).is_file():
        how["profile"] = json.loads(Path(how["profile"]).read_text())
    return how


def options(words: list[str]) -> argparse.Namespace:
    from tessera import fleet
    from tessera.fleet.planner import LayoutPlanner

    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--engine", choices=("vllm", "fake"), default="vllm")
    p.add_argument("--model", default="fake", help="for vLLM")
    p.add_argument("--name", help="what clients call the model; as --model if not given")
    p.add_argument("--replicas", type=int, default=2)
    p.add_argument(
        "--policy",
        choices=fleet.policies,
        default="least_load",
        help="where requests go",
    )
    p.add_argument(
        "--controller",
        choices=fleet.controllers,
        help="what decides about the fleet, by its name in `replay`; in the place of --policy",
    )
    p.add_argument(
        "--planner",
        default="",
        help="JSON: arguments of tessera.fleet.planner.LayoutPlanner, for --controller due-first",
    )
    p.add_argument("--prefill", type=int, default=0, help="replicas that only compute prompts; the others only decode")
    p.add_argument("--record", help="a file for all events and actions; python -m tessera.fleet replay reads it")
    p.add_argument("--settings", default="{}", help="JSON: further arguments of tessera.fleet.Runtime")
    p.add_argument(
        "--moves",
        action="store_true",
        help="requests go on elsewhere while they run (vLLM: over NIXL)",
    )
    p.add_argument(
        "--tight",
        type=int,
        default=32,
        help="with --moves: fewer free blocks, and requests leave",
    )
    p.add_argument(
        "--scheduler",
        default="fcfs",
        help="the policy inside vLLM, with --moves as well; see docs/vllm.md",
    )
    p.add_argument("--block-size", type=int, default=16)
    p.add_argument(
        "--engine-options",
        default="{}",
        help="JSON: further members of vLLM's EngineArgs, or arguments of FakeEngine",
    )
    p.add_argument("--longest", type=int, default=2048, help="tokens of a prompt and its answer")
    p.add_argument(
        "--end-of-reasoning",
        type=int,
        help="the token that ends it, for --policy pascal and a --scheduler that knows phases",
    )
    p.add_argument(
        "--prefill-budget",
        type=float,
        default=8192.0,
        help="prompt tokens within the TTFT aimed at",
    )
    p.add_argument(
        "--hang",
        type=float,
        default=15.0,
        help="seconds without a token: the engine hangs",
    )
    p.add_argument("--first", type=float, default=120.0, help="the same before the first token")
    p.add_argument("--period", type=float, default=0.5, help="seconds between reports")
    p.add_argument("--cpus", type=float, default=0.1, help="CPUs of a replica, for Ray")
    p.add_argument("--gpus", type=float, default=0.0)
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=8000)
    o = p.parse_args(words)
    if o.engine == "vllm" and o.model == p.get_default("model"):
        p.error("--model says which model vLLM serves; --engine fake needs none")
    if o.replicas < 1:
        p.error("--replicas: at least 1")
    if not 0 < o.prefill_budget <= 1e15:
        p.error(f"--prefill-budget: above 0 and at most 1e15 tokens, not {o.prefill_budget:g}")
    if o.prefill and not (0 < o.prefill < o.replicas and o.moves):
        p.error("--prefill: at least 1 and fewer than --replicas, with --moves: requests go on elsewhere")
    for name in ("settings", "engine_options", "planner"):
        try:
            if not isinstance(json.loads(getattr(o, name) or "{}"), dict):
                raise ValueError("it is not a JSON object")
        except ValueError as error:
            p.error(f"--{name.replace('_', '-')} is JSON, an object: {error}")
    try:
        LayoutPlanner(**(json.loads(o.planner) if o.planner else {}))
    except (TypeError, ValueError) as error:
        p.error(f"--planner has the arguments of tessera.fleet.planner.LayoutPlanner: {error}")
    if o.planner and o.controller != "due-first":
        p.error("--planner goes with --controller due-first")
    try:
        fleet.Router(
            None if o.controller else o.policy,
            controller=o.controller,
            block_size=o.block_size,
            tight=o.tight,
            **settings(o),
        )
    except (TypeError, ValueError) as error:
        p.error(f"--settings are those of tessera.fleet.Router: {error}")
    if o.engine == "vllm":
        from tessera.vllm.options import takes

        if o.scheduler not in takes:
            p.error(f"--scheduler is one of {', '.join(takes)}, not {o.scheduler}")
    return o


def start(words: list[str]) -> argparse.Namespace:
    """Deploys; returns when the endpoint answers and all replicas have joined."""
    import urllib.request

    o = options(words)
    if not ray.is_initialized():
        ray.init(
            address=os.environ.get("RAY_ADDRESS"),
            log_to_driver=False,
            include_dashboard=False,
        )
    serve.start(http_options={"host": o.host, "port": o.port})
    try:
        serve.run(deploy(o), name="tessera", route_prefix="/")
    except RuntimeError as error:
        raise SystemExit(f"{error}\nThe reason is in /tmp/ray/session_latest/logs/worker-*.err") from None
    for _ in range(600):
        with urllib.request.urlopen(f"http://{o.host}:{o.port}/fleet") as answer:
            if len(json.load(answer)["replicas"]) >= o.replicas:
                return o
        time.sleep(0.1)
    raise RuntimeError("not all replicas have joined within a minute")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    o = start(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ray.init has taken it
    print(f"http://{o.host}:{o.port}/v1", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        serve.shutdown()
