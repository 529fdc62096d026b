# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of examples/ray by themselves: what a replica says of exceptions of vLLM, and what clients are told of what
they ask wrongly. Further, the watch over replicas of Ray. Needs neither Ray nor vLLM; what is a matter of HTTP needs
FastAPI."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_engine import FakeEngine, answer
from replica import Engine, VllmEngine, failure_of, scheduling, takes_options
from virtual_time import run as run_in_virtual_time

from tessera.fleet import AtFault, Call, Died, Event, Piece, Refused, Router, Session, abilities, parse

# -- a replica, and what vLLM raises


class ClientError(Exception):
    pass


class ValidationError(ClientError):
    pass


class Overload(Exception):
    pass


class EngineDead(Exception):
    pass


class Generate(Exception):
    """What vLLM wraps others in."""


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What a replica needs of vLLM, without it. `params` and `generate`: what each of them raises."""
    how = SimpleNamespace(params=None, generate=None)

    def sampling_params(**said: Any) -> Any:
        if how.params is not None:
            raise how.params
        return said

    modules = {
        "vllm": {"SamplingParams": sampling_params},
        "vllm.sampling_params": {"RequestOutputKind": SimpleNamespace(DELTA=0)},
        "vllm.exceptions": {"VLLMClientError": ClientError, "GracefulHTTPError": Overload},
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.exceptions": {"EngineDeadError": EngineDead},
    }
    for name, has in modules.items():
        module = ModuleType(name)
        module.__dict__.update(has)
        monkeypatch.setitem(sys.modules, name, module)
    return how


async def said_by(how: SimpleNamespace, errored: bool = False, token: int = 3, **params: Any) -> list[dict[str, Any]]:
    """What a replica says to a call when its engine raises."""

    async def generate(*what: Any) -> Any:
        yield SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=[7], finish_reason=None)],
            finished=False,
            kv_transfer_params=None,
            num_cached_tokens=0,
        )
        raise how.generate

    inner = VllmEngine.__new__(VllmEngine)
    inner._llm = SimpleNamespace(generate=generate, errored=errored)
    inner._names = iter(range(10))
    inner._all = {}
    inner.block_size = 16
    inner.vocabulary = 1000
    engine = Engine.__new__(Engine)
    engine._engine = inner
    call = {"ids": [token], "at": 0, "max_tokens": 5, "router": "r", "params": params, "export": False, "kv": None}
    said = [item async for item in engine.stream(call)]
    assert inner._all == {}
    return said


def test_what_vllm_rejects_is_the_requests_fault_and_no_death(vllm: SimpleNamespace) -> None:
    vllm.params = ValidationError("top_p must be in (0, 1], got 0.")
    assert asyncio.run(said_by(vllm)) == [{"failure": "at_fault", "why": "top_p must be in (0, 1], got 0."}]
    vllm.params = None
    wrapped = Generate()
    wrapped.__cause__ = OverflowError("too large")
    for error, kind, why in (
        (ValidationError("token id 9 is out of vocabulary"), "at_fault", "token id 9 is out of vocabulary"),
        (ValueError("wrong"), "at_fault", "wrong"),
        (wrapped, "at_fault", "too large"),
        (Overload("busy"), "refused", "busy"),
        (EngineDead("..."), "died", "the engine is dead"),
        (RuntimeError("of a type of its own"), "died", "RuntimeError"),
    ):
        vllm.generate = error
        assert asyncio.run(said_by(vllm))[1:] == [{"failure": kind, "why": why}]
    # A request that hears of its end from a task that has failed over some value is not at fault.
    vllm.generate = wrapped
    assert asyncio.run(said_by(vllm, errored=True))[1:] == [{"failure": "died", "why": "the engine is dead"}]


def test_a_token_that_the_model_does_not_have_never_comes_to_vllm(vllm: SimpleNamespace) -> None:
    vllm.params = vllm.generate = EngineDead()
    why = "there is no token 1000: the model has 1000"
    assert asyncio.run(said_by(vllm, token=1000)) == [{"failure": "at_fault", "why": why}]
    assert asyncio.run(said_by(vllm, stop_token_ids=[5, 1000])) == [{"failure": "at_fault", "why": why}]
    vllm.params = None
    assert asyncio.run(said_by(vllm, token=999, stop_token_ids=[999]))[0]["tokens"] == [7]


def test_a_vllm_that_lacks_these_types_is_understood(vllm: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm.exceptions", None)
    assert isinstance(failure_of(ValueError("wrong"), False), AtFault)
    assert isinstance(failure_of(EngineDead(), False), Died)
    assert not isinstance(failure_of(Overload(), False), Refused)


def test_an_engine_that_raises_anything_is_said_to_have_died() -> None:
    class Raises:
        async def stream(self, call: Any) -> Any:
            raise KeyError("x")
            yield

    engine = Engine.__new__(Engine)
    engine._engine = Raises()
    call = {"ids": [3], "at": 0, "max_tokens": 5, "router": "r", "params": {}, "export": False, "kv": None}

    async def all_of() -> list[Any]:
        return [item async for item in engine.stream(call)]

    assert asyncio.run(all_of()) == [{"failure": "died", "why": "KeyError"}]


def test_a_scheduler_that_knows_phases_is_told_what_ends_reasoning() -> None:
    assert scheduling("pascal", 9) == {"policy": "pascal", "end_of_reasoning": 9}
    assert scheduling("pascal", 0) == {"policy": "pascal", "end_of_reasoning": 0}
    assert scheduling("pascal", None) == {"policy": "pascal"}
    assert scheduling("fcfs", 9) == {"policy": "fcfs"}


def test_a_replica_is_told_what_a_controller_wants_of_it() -> None:
    async def run() -> None:
        engine = Engine("fake", {"name": "e"})
        assert (await engine.record_routing_stats())["can"] == [*abilities]
        for method, what in (
            ("set_prefill_budget", (64,)),
            ("become", ("decode",)),
            ("set_order", ("quantum", 250)),
            ("set_length_range", (8, None)),
        ):
            assert await engine.notify({"pin": "e", "method": method, "what": what}) == ""
        fake = engine._engine
        assert fake.told == {"prefill_budget": 64, "role": "decode", "quantum": 250, "lengths": (8, None)}
        assert fake.budget == 64
        await engine.notify({"pin": "e", "method": "set_prefill_budget", "what": (0,)})
        assert fake.budget == 512, "its own"
        assert await engine.notify({"pin": "e", "misrouted": True, "method": "become", "what": ("mixed",)})
        assert "TypeError" in await engine.notify({"pin": "e", "method": "become", "what": ()})
        assert fake.told["role"] == "decode"

    run_in_virtual_time(run())


def test_a_fake_engine_takes_the_kv_of_another_actor() -> None:
    async def run() -> None:
        source, target = Engine("fake", {}), Engine("fake", {})
        ids = [*range(3, 43)]
        call = {"at": 0, "max_tokens": 1, "router": "r", "params": {"ignore_eos": True}, "export": True, "kv": None}
        (said,) = [p async for p in source.stream({**call, "ids": ids})]
        call |= {"at": 1, "max_tokens": 5, "export": False, "kv": said["kv"]}
        pieces = [p async for p in target.stream({**call, "ids": [*ids, *said["tokens"]]})]
        assert said["tokens"] + [t for p in pieces for t in p["tokens"]] == answer(ids, 6)
        assert pieces[0]["cached"] == said["kv"]["tokens"] == len(ids)

    run_in_virtual_time(run())


def test_a_scheduler_in_vllm_has_options(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[Any, ...]] = []

    async def set_option(llm: Any, name: str, value: float) -> None:
        if value < 0:
            raise ValueError(f"{name} is not negative")
        set_to.append((llm, name, value))

    module = ModuleType("tessera.vllm")
    module.set_option = set_option  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tessera.vllm", module)

    def llm(scheduler: str) -> Any:
        return SimpleNamespace(vllm_config=SimpleNamespace(scheduler_config=SimpleNamespace(scheduler_cls=scheduler)))

    ours = llm("tessera.vllm.Scheduler")
    assert takes_options(ours) and not takes_options(llm("None"))
    engine, inner = Engine.__new__(Engine), VllmEngine.__new__(VllmEngine)
    engine._engine, inner._llm = inner, ours
    for method, what in (("set_prefill_budget", (512,)), ("set_order", ("pace", 8)), ("set_order", ("quantum", 9.0))):
        assert asyncio.run(engine.notify({"pin": "e", "method": method, "what": what})) == ""
    assert set_to == [(ours, "prefill_budget", 512), (ours, "pace", 1 / 8), (ours, "quantum", 9)]
    why = asyncio.run(engine.notify({"pin": "e", "method": "set_prefill_budget", "what": (-1,)}))
    assert why == "ValueError: prefill_budget is not negative"
    monkeypatch.delattr(module, "set_option")
    assert not takes_options(ours)


class Behind:
    """A replica behind its actor."""

    def __init__(self, actor: Engine) -> None:
        self.actor = actor

    async def stream(self, call: Call) -> Any:
        async for item in self.actor.stream(dataclasses.asdict(call)):
            if "failure" in item:
                raise {"at_fault": AtFault, "died": Died}[item["failure"]](item["why"])
            yield Piece(**item)


def test_min_tokens_are_those_of_the_whole_answer() -> None:
    prompt = [9, *range(3, 60)]
    params = {"min_tokens": 80}
    assert len(answer(prompt, 100, ends=True)) < 40, "it would end before that"

    async def say(what: str) -> Session:
        peers: dict[str, FakeEngine] = {}
        router = Router(moves="cascade", rest=0.0)
        actors = [Engine("fake", {"name": f"e{i}", "peers": peers, "cache_blocks": 0}) for i in range(2)]
        for i, actor in enumerate(actors):
            router.add(f"e{i}", Behind(actor), 512)
        s = router.stream(prompt, 100, params)
        async for piece in s:
            if piece.at == 40 and what == "dies":
                peers[s.replica or ""].kill()
            elif piece.at == 40 and what == "moves":
                router.serves(s.replica, 0, 1)
        return s

    undisturbed, dies, moves = [run_in_virtual_time(say(what)) for what in ("nothing", "dies", "moves")]
    assert len(undisturbed.got) >= 80 and dies.got == moves.got == undisturbed.got
    assert len(dies.failures) == 1 and moves.moves == 1
    params["min_tokens"] = 101
    with pytest.raises(AtFault, match="min_tokens"):
        run_in_virtual_time(say("nothing"))


# -- what clients are told


def ask(body: Any, chat: bool = False, longest: int = 100, tokenizer: Any = None, engines: int = 2) -> tuple[int, Any]:
    """Status and answer. Whatever is asked for, no engine dies of it."""
    pytest.importorskip("fastapi")
    import openai_api
    from tokens import Numbers

    async def run() -> tuple[int, Any]:
        router = Router()
        replicas = [FakeEngine(f"e{i}") for i in range(engines)]
        for e in replicas:
            router.add(e.name, e, e.blocks)
        openai_api.backend = openai_api.Backend(router, tokenizer or Numbers(), "fake", longest)

        async def body_of() -> Any:
            return body

        got = await openai_api.serve(SimpleNamespace(json=body_of), chat)  # type: ignore[arg-type]
        assert not any(e.dead for e in replicas) and router.failed == 0 and len(router.book) == 0
        return got.status_code, json.loads(bytes(got.body))

    try:
        return asyncio.run(run())
    finally:
        openai_api.backend = None


def says(content: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def test_a_prompt_that_leaves_no_room_is_the_clients_mistake() -> None:
    for length in (99, 100, 150):
        status, got = ask(says("7 " * length), chat=True)
        assert status == 400 and "leave no room" in got["error"]["message"] and got["error"]["param"] == "messages"
        status, got = ask({"prompt": [7] * (length + 1)})
        assert status == 400 and "leave no room" in got["error"]["message"] and got["error"]["param"] == "prompt"
    status, got = ask(says("7 " * 98), chat=True)
    assert status == 200 and got["usage"]["completion_tokens"] == 1


def test_what_is_no_token_is_the_clients_mistake() -> None:
    status, got = ask({"prompt": [5, 2**31]})
    assert status == 400 and got["error"]["param"] == "prompt" and "each is from 0 to" in got["error"]["message"]
    # More digits than Python reads.
    assert ask({"prompt": "7" * 5000})[0] == 400


def test_whatever_a_chat_template_raises_is_the_clients_mistake() -> None:
    class TemplateError(Exception):
        pass

    class Strict:
        def chat(self, messages: Any) -> Any:
            raise TemplateError("Conversation roles must alternate")

    status, got = ask(says("hello"), chat=True, tokenizer=Strict())
    assert status == 400 and "roles must alternate" in got["error"]["message"]
    assert got["error"]["param"] == "messages"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("structured_outputs", {"regex": "a+"}),
        ("guided_json", {"type": "object"}),
        ("guided_regex", "a+"),
        ("guided_choice", ["a"]),
        ("guided_grammar", "root ::= 'a'"),
        ("response_format", {"type": "json_object"}),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("functions", [{"name": "f"}]),
        ("function_call", "auto"),
        ("prompt_logprobs", 1),
        ("allowed_token_ids", [5]),
        ("bad_words", ["a"]),
        ("use_beam_search", True),
    ],
)
def test_what_is_not_there_is_said_and_not_left_out(name: str, value: Any) -> None:
    status, got = ask({**says("hello"), name: value}, chat=True)
    assert status == 400 and got["error"]["param"] == name and "not supported" in got["error"]["message"]


def test_what_is_not_asked_for_may_be_said() -> None:
    body = {"prompt": [5, 6], "max_tokens": 3, "tool_choice": "none", "bad_words": [], "use_beam_search": False}
    status, got = ask({**body, "structured_outputs": None, "ignore_eos": True})
    assert status == 200 and got["choices"][0]["text"] == "".join(f" {t}" for t in answer([5, 6], 3))


def test_numbers_that_are_too_large_are_the_clients_mistake() -> None:
    for name in ("temperature", "presence_penalty"):
        status, got = ask({"prompt": [5, 6], name: 10**400})
        assert status == 400 and got["error"]["param"] == name and "too large" in got["error"]["message"]


def test_a_chat_may_say_that_it_wants_no_logprobs() -> None:
    for value in (None, False):
        assert ask({**says("hello"), "max_tokens": 3, "logprobs": value}, chat=True)[0] == 200
    assert ask({**says("hello"), "logprobs": True}, chat=True)[0] == 400
    # Elsewhere it is a number, of which 0 asks for some.
    assert ask({"prompt": [5, 6], "logprobs": 0})[0] == 400


def test_only_who_says_the_same_elsewhere_may_move(monkeypatch: pytest.MonkeyPatch) -> None:
    movable: list[bool] = []
    stream = Router.stream

    def watched(self: Router, *what: Any, **how: Any) -> Session:
        movable.append(how["movable"])
        return stream(self, *what, **how)

    monkeypatch.setattr(Router, "stream", watched)
    for params in (
        {"temperature": 0},
        {"temperature": 0, "presence_penalty": 0, "repetition_penalty": 1.5, "min_tokens": 2},
        {},
        {"temperature": 0, "presence_penalty": 0.5},
        {"temperature": 0, "frequency_penalty": -1},
    ):
        assert ask({"prompt": [5, 6], "max_tokens": 3, **params})[0] == 200
    assert movable == [True, True, False, False, False]


# -- the watch over replicas


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Any:
    if importlib.util.find_spec("ray") is None:
        for name in ("ray", "ray.serve", "ray.serve.handle"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setattr(sys.modules["ray.serve.handle"], "DeploymentHandle", object, raising=False)
        monkeypatch.delitem(sys.modules, "front", raising=False)
    return importlib.import_module("front")


def ray_knows(names: list[str]) -> Any:
    said = {"epoch": 1, "all": (0, 0, 0), "by_router": {}, "free": 10, "capacity": 10, "pid": 1}
    return SimpleNamespace(
        curr_replicas={
            name: SimpleNamespace(
                replica_id=SimpleNamespace(unique_id=name), routing_stats=dict(said), _actor_handle=None
            )
            for name in names
        }
    )


class Handle:
    def options(self, **what: Any) -> Handle:
        return self


def test_the_watch_outlives_what_goes_wrong_with_a_replica(front: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        ray = ray_knows(["malformed", "a", "b", "c"])
        ray.curr_replicas["malformed"].routing_stats = {"capacity": 10}
        front.ray_routers[:] = [ray]
        router = Router(replicas=2)
        watch = asyncio.ensure_future(front.watch(router, Handle(), period=0.001, forget=0.02))
        await asyncio.sleep(0.05)
        assert router.names() == ["a", "b"]
        assert len(caplog.records) == 2 and "there is room for 2 replicas" in caplog.text, "each said once"
        # One goes: there is room for the third.
        del ray.curr_replicas["a"]
        await asyncio.sleep(0.05)
        assert router.names() == ["b", "c"]
        # And something that concerns no replica in particular.
        tick, router.tick = router.tick, lambda: 1 / 0  # type: ignore[method-assign]
        await asyncio.sleep(0.02)
        assert "division by zero" in caplog.text and not watch.done()
        router.tick = tick  # type: ignore[method-assign]
        del ray.curr_replicas["b"]
        await asyncio.sleep(0.05)
        assert router.names() == ["c"] and not watch.done()
        watch.cancel()

    try:
        asyncio.run(run())
    finally:
        front.ray_routers.clear()


def test_a_replica_of_ray_is_told_through_its_handle(front: Any) -> None:
    async def run() -> None:
        actor, told = Engine("fake", {"name": "e"}), list[dict[str, Any]]()

        class Remote:
            def options(self, **what: Any) -> Remote:
                return self

            async def remote(self, said: dict[str, Any]) -> str:
                told.append(said)
                return await actor.notify(said)

        replica = front.RayReplica(Remote(), "e", None, 1)
        router = Router()
        said = await actor.record_routing_stats()
        router.add("e", replica, said["capacity"], can=said["can"])
        router._do([parse("> set_prefill_budget replica=0 low=64"), parse("> set_length_range replica=0 low=8 high=9")])
        await asyncio.sleep(0.1)
        assert actor._engine.told == {"prefill_budget": 64, "lengths": (8, 9)}
        assert all(s["pin"] == "e" for s in told) and len(told) == 2
        with pytest.raises(RuntimeError, match="TypeError"):
            await replica._told("become")

    run_in_virtual_time(run())


def test_who_is_not_listed_gets_nothing_new_and_is_gone_after_a_while(front: Any) -> None:
    async def run() -> None:
        ray = ray_knows(["a", "b", "c"])
        front.ray_routers[:] = [ray]
        router = Router(silence=1000.0, lease=1000.0)
        watch = asyncio.ensure_future(front.watch(router, Handle(), period=0.05))
        await asyncio.sleep(0.5)
        assert router.names() == ["a", "b", "c"] and router.book.shown() == [0, 1, 2]
        listed = dict(ray.curr_replicas)
        # One has died: the router knows, and Ray drops it. Its controller does not know yet, and lists it again.
        router.gone("a")
        del ray.curr_replicas["a"]
        await asyncio.sleep(0.5)
        ray.curr_replicas = dict(listed)
        await asyncio.sleep(0.5)
        assert router.names() == ["b", "c"]
        # One that is not listed for a moment, with a request or without, gets none meanwhile, and is back.
        for request in (None, 7):
            entry = router.entry("b")
            if request is not None:
                router.book.arrived(request, 16, router.now(), excluded=[router.entry("c").number])
                assert router.book.where(request) == entry.number
            del ray.curr_replicas["b"]
            await asyncio.sleep(0.5)
            assert router.names() == ["b", "c"] and router.book.shown() == [router.entry("c").number]
            ray.curr_replicas = dict(listed)
            await asyncio.sleep(0.5)
            assert router.book.shown() == [router.entry("c").number], "it has said nothing since"
            listed["b"].routing_stats["epoch"] += 1
            await asyncio.sleep(0.5)
            assert router.entry("b") is entry and len(router.book.shown()) == 2
        # It goes for good: when its request has ended.
        del listed["b"]
        ray.curr_replicas = dict(listed)
        await asyncio.sleep(70)
        assert router.names() == ["b", "c"]
        router.book.handle(Event("ended", router.now(), request=7))
        await asyncio.sleep(0.5)
        assert router.names() == ["c"] and not watch.done()
        # A replica that is dead and is listed all the time stays so.
        await asyncio.sleep(70)
        assert router.names() == ["c"]
        watch.cancel()

    try:
        run_in_virtual_time(run())
    finally:
        front.ray_routers.clear()
