# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""OpenAI's completions and chat completions over sessions of `tessera.fleet`. Knows neither Ray nor vLLM.

Text is made of tokens here, at the front end, and stop strings are looked for here. So neither notices when a request
goes on at another engine.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from tessera.fleet import AtFault, Failure, Refused, Router

#: Given to the engine as they are.
engine_params = {
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "min_p": float,
    "seed": int,
    "presence_penalty": float,
    "frequency_penalty": float,
    "repetition_penalty": float,
    "min_tokens": int,
    "ignore_eos": bool,
    "stop_token_ids": list,
}
#: What must be as it is if it is said at all: the rest is not supported.
only = {
    "n": 1,
    "best_of": 1,
    "echo": False,
    "logprobs": None,
    "top_logprobs": None,
    "suffix": None,
    "prompt_logprobs": None,
    "tools": None,
    "tool_choice": "none",
    "functions": None,
    "function_call": "none",
    "response_format": None,
    "structured_outputs": None,
    "guided_json": None,
    "guided_regex": None,
    "guided_choice": None,
    "guided_grammar": None,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": [],
    "use_beam_search": False,
}
#: The same for a chat: its `logprobs` is no number.
only_chat = {**only, "logprobs": False}


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...
    def chat(self, messages: list[dict[str, Any]]) -> list[int]: ...
    def decoder(self) -> Decoder: ...


class Decoder(Protocol):
    def add(self, tokens: list[int], last: bool) -> str:
        """The text that they add; what is no whole character yet comes later, but at the end."""


@dataclass
class Backend:
    """What is behind the endpoints of this process."""

    router: Router
    tokenizer: Tokenizer
    model: str
    longest: int
    end_of_reasoning: int | None = None


#: Set by the program that serves.
backend: Backend | None = None


class Mistake(Exception):
    def __init__(self, message: str, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


def error_body(message: str, status: int, param: str | None = None) -> dict[str, Any]:
    kind = {
        400: "invalid_request_error",
        404: "not_found_error",
        503: "overloaded_error",
    }.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def status_of(error: Exception) -> int:
    if isinstance(error, Mistake):
        return error.status
    return 400 if isinstance(error, AtFault) else 503 if isinstance(error, Refused) else 500


class Text:
    """Text of tokens up to a stop string. What might be the beginning of one is held back."""

    def __init__(self, decoder: Decoder, stops: list[str]) -> None:
        self._decoder = decoder
        self._stops = stops
        self._held = ""
        self.stopped = False

    def add(self, tokens: list[int], last: bool) -> str:
        self._held += self._decoder.add(tokens, last)
        found = [i for i in (self._held.find(s) for s in self._stops) if i >= 0]
        if found:
            self.stopped = True
            out, self._held = self._held[: min(found)], ""
            return out
        keep = 0 if last else self._begun()
        out = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return out

    def _begun(self) -> int:
        longest = max((len(s) for s in self._stops), default=1) - 1
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(s.startswith(self._held[-n:]) for s in self._stops):
                return n
        return 0


def integer(body: dict[str, Any], name: str, default: int, least: int) -> int:
    n = body.get(name)
    if n is None:
        return default
    if not isinstance(n, int) or isinstance(n, bool) or n < least:
        raise Mistake(f"{name} must be a whole number of at least {least}", param=name)
    return n


def read_prompt(body: dict[str, Any], b: Backend) -> list[int]:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        try:
            return b.tokenizer.encode(prompt)
        except Exception as error:
            raise Mistake(f"the prompt has no tokens: {error}", param="prompt") from None
    if isinstance(prompt, list) and all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in prompt):
        return list(prompt)
    raise Mistake("prompt must be a string or a list of token ids: one prompt", param="prompt")


def read_messages(body: dict[str, Any], b: Backend) -> list[int]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Mistake("messages must be a list that is not empty", param="messages")
    plain = []
    for m in messages:
        content = m.get("content") if isinstance(m, dict) else None
        if isinstance(content, list) and all(isinstance(p, dict) and p.get("type") == "text" for p in content):
            content = "".join(str(p.get("text", "")) for p in content)
        if not isinstance(content, str) or not isinstance(m.get("role"), str):
            raise Mistake("a message has a role, and a content of text", param="messages")
        plain.append({"role": m["role"], "content": content})
    try:
        return b.tokenizer.chat(plain)
    except Exception as error:
        # A template is a program of the model's: it may raise anything about messages that it does not expect.
        raise Mistake(f"the chat template does not take these messages: {error}", param="messages") from None


@dataclass
class Asked:
    ids: list[int]
    max_tokens: int
    params: dict[str, Any]
    stops: list[str]
    stream: bool
    usage: bool


def read(body: Any, b: Backend, chat: bool) -> Asked:
    if not isinstance(body, dict):
        raise Mistake("the body must be a JSON object")
    model = body.get("model")
    if model is not None and model != b.model:
        raise Mistake(f"the model `{model}` does not exist; there is `{b.model}`", 404, "model")
    for name, value in (only_chat if chat else only).items():
        if body.get(name) not in (None, value):
            raise Mistake(f"{name} must be {json.dumps(value)}: other values are not supported", param=name)
    ids = read_messages(body, b) if chat else read_prompt(body, b)
    if not ids:
        raise Mistake("the prompt is empty", param="prompt")
    room = b.longest - len(ids)
    if room < 1:
        raise Mistake(
            f"{len(ids)} tokens of prompt leave no room for an answer: together they are at most {b.longest}",
            param="messages" if chat else "prompt",
        )
    name = "max_completion_tokens" if chat and body.get("max_completion_tokens") is not None else "max_tokens"
    n = integer(body, name, room if chat else min(16, room), 1)
    if n > room:
        raise Mistake(
            f"{len(ids)} tokens of prompt and {name} of {n} are more than {b.longest}",
            param=name,
        )
    params: dict[str, Any] = {}
    for key, kind in engine_params.items():
        value = body.get(key)
        if value is None:
            continue
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError:
                raise Mistake(f"{key} is too large a number", param=key) from None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Mistake(f"{key} must be of type {kind.__name__}", param=key)
        params[key] = value
    stops = body.get("stop")
    stops = [] if stops is None else [stops] if isinstance(stops, str) else stops
    if not isinstance(stops, list) or len(stops) > 16 or not all(isinstance(s, str) and s for s in stops):
        raise Mistake(
            "stop must be a string, or up to 16 of them, none of them empty",
            param="stop",
        )
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Mistake("stream_options must be an object", param="stream_options")
    return Asked(
        ids,
        n,
        params,
        stops,
        bool(body.get("stream")),
        bool(options.get("include_usage")),
    )


async def serve(request: Request, chat: bool) -> Response:
    b = backend
    assert b is not None
    try:
        try:
            body = await request.json()
        except ValueError:
            raise Mistake("the body is not JSON") from None
        asked = read(body, b, chat)
        # A request that samples would go on differently elsewhere, so it stays where it is. So does one with penalties
        # for what is in the answer: to an engine that goes on, what another has said is the prompt.
        penalties = [asked.params.get(f"{of}_penalty", 0.0) for of in ("presence", "frequency")]
        try:
            session = b.router.stream(
                asked.ids,
                asked.max_tokens,
                asked.params,
                movable=asked.params.get("temperature", 1.0) == 0 and not any(penalties),
                end_of_reasoning=b.end_of_reasoning,
            )
        except ValueError as error:
            raise Mistake(str(error), param="messages" if chat else "prompt") from None
        deltas = Deltas(session, Text(b.tokenizer.decoder(), asked.stops))
        first = await anext(deltas)
    except (Mistake, Failure) as error:
        return JSONResponse(
            error_body(str(error), status_of(error), getattr(error, "param", None)),
            status_of(error),
        )
    answer = Answer(b.model, chat, len(asked.ids))
    if asked.stream:
        return StreamingResponse(events(answer, deltas, first, asked.usage), media_type="text/event-stream")
    try:
        text, finish = first
        async for more, why in deltas:
            text, finish = text + more, why
    except Failure as error:
        return JSONResponse(error_body(str(error), status_of(error)), status_of(error))
    finally:
        await deltas.aclose()
    return JSONResponse(answer.whole(text, finish, deltas))


class Deltas:
    """(text, why it ends) of a session."""

    def __init__(self, session: Any, text: Text) -> None:
        self.session = session
        self._text = text
        self._pieces = session.__aiter__()
        self._over = False

    def __aiter__(self) -> Deltas:
        return self

    async def __anext__(self) -> tuple[str, str | None]:
        if self._over:
            raise StopAsyncIteration
        try:
            piece = await anext(self._pieces)
        except BaseException:
            await self.aclose()
            raise
        text = self._text.add(list(piece.tokens), piece.finish is not None)
        finish = "stop" if self._text.stopped else piece.finish
        if finish is not None:
            await self.aclose()
        return text, finish

    async def aclose(self) -> None:
        self._over = True
        await self.session.aclose()


class Answer:
    """The objects that clients read."""

    def __init__(self, model: str, chat: bool, prompt: int) -> None:
        self.chat = chat
        self.prompt = prompt
        self.head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex,
            "created": int(time.time()),
            "model": model,
        }

    def usage(self, deltas: Deltas) -> dict[str, Any]:
        n = len(deltas.session.got)
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": n,
            "total_tokens": self.prompt + n,
            "prompt_tokens_details": {"cached_tokens": deltas.session.cached},
        }

    def whole(self, text: str, finish: str | None, deltas: Deltas) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion" if self.chat else "text_completion"
        return {
            **self.head,
            "object": kind,
            "choices": [choice],
            "usage": self.usage(deltas),
        }

    def chunk(self, text: str, finish: str | None, begins: bool) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
        if self.chat:
            choice["delta"] = {
                **({"role": "assistant"} if begins else {}),
                "content": text,
            }
        else:
            choice["text"] = text
        return {**self.head, "object": self.kind(), "choices": [choice]}

    def last(self, deltas: Deltas) -> dict[str, Any]:
        return {
            **self.head,
            "object": self.kind(),
            "choices": [],
            "usage": self.usage(deltas),
        }

    def kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"


async def events(answer: Answer, deltas: Deltas, first: tuple[str, str | None], usage: bool) -> AsyncIterator[str]:
    def line(data: dict[str, Any]) -> str:
        return f"data: {json.dumps(data)}\n\n"

    try:
        yield line(answer.chunk(*first, begins=True))
        async for text, finish in deltas:
            yield line(answer.chunk(text, finish, begins=False))
        if usage:
            yield line(answer.last(deltas))
    except Failure as error:
        yield line(error_body(str(error), status_of(error)))
    finally:
        await deltas.aclose()
    yield "data: [DONE]\n\n"


async def completions(request: Request) -> Response:
    return await serve(request, chat=False)


async def chat_completions(request: Request) -> Response:
    return await serve(request, chat=True)


async def models() -> dict[str, Any]:
    assert backend is not None
    entry = {
        "id": backend.model,
        "object": "model",
        "created": 0,
        "owned_by": "tessera",
        "max_model_len": backend.longest,
    }
    return {"object": "list", "data": [entry]}


async def health() -> Response:
    return Response(status_code=200 if backend is not None and backend.router.book.shown() else 503)


async def fleet() -> dict[str, Any]:
    """The router's book, for people."""
    assert backend is not None
    router = backend.router
    out: dict[str, Any] = {
        "requests": len(router.book),
        "moving": router.book.moving,
        "moves": [{"from": source, "to": target} for source, target in router.moving()],
        "moved": router.moved,
        "stayed": router.stayed,
        "failed": router.failed,
        "expired": router.book.expired,
        "plans": router.plans,
        "replicas": {},
    }
    for name in router.names():
        entry = router.entry(name)
        if entry is not None:
            view = router.book.view(entry.number)
            about = getattr(entry.replica, "about", {})
            out["replicas"][name] = {**view, "reported": entry.said.requests, **about}
    return out


def make_api() -> FastAPI:
    """Its routes are functions of this module: Ray copies the object, and they find `backend` where it is set."""
    api = FastAPI(title="tessera")
    api.post("/v1/completions", response_model=None)(completions)
    api.post("/v1/chat/completions", response_model=None)(chat_completions)
    api.get("/v1/models")(models)
    api.get("/health", response_model=None)(health)
    api.get("/fleet")(fleet)
    return api
