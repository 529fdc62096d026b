# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prompts with images, and a runner without a model that holds what an encoder has made of them.

The KV of a place in an image is the image's content there. What an image's encoder gives is in the runner's cache only
from when a step says so to when a step says that it goes. So an image that is not there, or another one, is seen.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zlib import crc32

import model

model.prepare()

import stub  # noqa: E402
import torch  # noqa: E402
import vision_model  # noqa: E402
from vllm import EngineArgs, SamplingParams  # noqa: E402
from vllm.multimodal.inputs import MultiModalFeatureSpec, MultiModalKwargsItem, PlaceholderRange  # noqa: E402

from tessera.vllm import support  # noqa: E402

#: Embeddings of the largest image that the model takes. vLLM makes its cache at least so large.
most = vision_model.embeddings

#: In a prompt: a place that an image fills, and the end of a line of an image, which it does not fill.
place, line_end = 2, 1

reason = "inputs that are not text"


def content(identifier: str, embeddings: int) -> list[int]:
    """What the encoder gives, as tokens that are not in a text."""
    return [64 + crc32(f"{identifier} {i}".encode()) % 900 for i in range(embeddings)]


@dataclass(frozen=True)
class Image:
    identifier: str
    filled: tuple[bool, ...]  #: of its places in a prompt: whether an embedding comes there

    @property
    def embeddings(self) -> int:
        return sum(self.filled)

    def feature(self, offset: int) -> Any:
        """It, for a request with it at `offset`."""
        mask = None if all(self.filled) else torch.tensor(self.filled)
        return MultiModalFeatureSpec(
            data=MultiModalKwargsItem.dummy(),
            modality="image",
            identifier=self.identifier,
            mm_position=PlaceholderRange(offset=offset, length=len(self.filled), is_embed=mask),
        )


def plain(identifier: str, embeddings: int) -> Image:
    return Image(identifier, (True,) * embeddings)


def in_lines(identifier: str, lines: int, length: int) -> Image:
    """One with a token behind each line, as Pixtral's, and one before all, as Gemma's."""
    return Image(identifier, (False, *((True,) * length + (False,)) * lines))


def prompt_of(parts: list[Any]) -> tuple[list[int], list[Any]]:
    """A prompt of texts and images, and its features."""
    tokens: list[int] = []
    features = []
    for part in parts:
        if isinstance(part, Image):
            features.append(part.feature(len(tokens)))
            tokens += [place if fills else line_end for fills in part.filled]
        else:
            tokens += part
    return tokens, features


def filled(features: list[Any]) -> Iterator[tuple[int, int]]:
    """The places of a prompt that images fill, and what comes there."""
    for feature in features:
        offset, length, mask = (getattr(feature.mm_position, name) for name in ("offset", "length", "is_embed"))
        places = range(length) if mask is None else [i for i in range(length) if mask[i]]
        for i, token in zip(places, content(feature.identifier, len(places)), strict=True):
            yield offset + i, token


def seen(tokens: list[int], features: list[Any]) -> list[int]:
    """A sequence as the model sees it."""
    made = list(tokens)
    for position, token in filled(features):
        assert made[position] == place
        made[position] = token
    return made


@cache
def _model_config() -> Any:
    return EngineArgs(
        model=vision_model.folder(), dtype="float32", max_model_len=stub.longest, limit_mm_per_prompt={"image": 16}
    ).create_model_config()


def config(budget: int = 64, cache_size: int = 128, **more: Any) -> Any:
    """As stub.config, of a model with images. `budget`: most embeddings that a step encodes."""
    made = stub.config(**more)
    made.model_config = _model_config()
    made.scheduler_config.max_num_encoder_input_tokens = budget
    made.scheduler_config.encoder_cache_size = cache_size
    assert made.model_config.supports_multimodal_inputs
    return made


@cache
def is_supported() -> bool:
    return reason not in support.why_not_config(config(tessera={}))


@dataclass
class Runner(stub.Runner):
    """With an encoder, and a cache of what it has given, as vLLM's runners."""

    budget: int = 64
    cache_size: int = 128
    uncut: bool = False  #: no step ends in an image that begins in it
    lenient: bool = False  #: what vLLM's own scheduler does may be done, see below

    def __post_init__(self) -> None:
        super().__post_init__()
        self.features: dict[str, list[Any]] = {}  #: by request
        self.outputs: dict[str, list[int]] = {}  #: by identifier
        self.encoded = 0  #: so many images
        self.again = 0  #: of them, those that the cache had had
        self.needless = 0  #: of them, those that the cache had
        self.unsent = 0
        self.dropped = 0
        self.cut = 0  #: so many steps have ended in an image
        self.largest = 0  #: the most that a step has encoded
        self.held = 0  #: the most that the cache has had
        self.known: set[str] = set()

    def reset_encoder_cache(self) -> None:
        self.outputs.clear()

    def run(self, step: Any) -> Any:
        for request_id in step.finished_req_ids | ((step.preempted_req_ids or set()) if self.second else set()):
            self.features.pop(request_id, None)
        for new in step.scheduled_new_reqs:
            self.features[new.req_id] = list(new.mm_features)
        for identifier in step.free_encoder_mm_hashes:
            assert identifier in self.outputs, "an output is dropped that is not there"
            del self.outputs[identifier]
            self.dropped += 1
        self._encode(step)
        self._look(step)
        return super().run(self._as_seen(step))

    def _encode(self, step: Any) -> None:
        size = 0
        for request_id, inputs in step.scheduled_encoder_inputs.items():
            assert step.num_scheduled_tokens.get(request_id, 0) > 0, "an image of a request that is not in the step"
            assert inputs and len(set(inputs)) == len(inputs)
            for i in inputs:
                feature = self.features[request_id][i]
                # vLLM's own lets go of an output in a step, and wants it again later in that step.
                self.needless += feature.identifier in self.outputs
                assert self.lenient or not self.needless, "an output is there already"
                # Nor does it send an image that the prefix cache covers. Once that prefix is evicted, and the request
                # preempted, vLLM's runner stops the engine: "Encoder cache miss".
                self.unsent += feature.data is None
                assert self.lenient or not self.unsent, "an image that the runner was not sent"
                n = feature.mm_position.get_num_embeds()
                self.outputs[feature.identifier] = content(feature.identifier, n)
                size += n
                self.encoded += 1
                self.again += feature.identifier in self.known
                self.known.add(feature.identifier)
        held = sum(map(len, self.outputs.values()))
        assert size <= self.budget, f"{size} embeddings in a step"
        assert held <= self.cache_size, f"{held} embeddings in the cache"
        self.largest, self.held = max(self.largest, size), max(self.held, held)

    def _look(self, step: Any) -> None:
        """Whether what a step computes of images is there."""
        cached = step.scheduled_cached_reqs
        starts = {new.req_id: new.num_computed_tokens for new in step.scheduled_new_reqs}
        starts |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for request_id, start in starts.items():
            end = start + step.num_scheduled_tokens[request_id]
            for feature in self.features[request_id]:
                first, last = feature.mm_position.offset, feature.mm_position.offset + feature.mm_position.length
                self.cut += first < end < last
                # EAGLE's layers and MTP's read the next token. They do without an image that begins there. vLLM's own
                # scheduler does not: it ends a step a token before that, in the image before.
                ahead = self.drafter in ("eagle", "modules")
                assert not self.uncut or not start < first < end < last - ahead, "a step ends in an image"
                wanted = [p for p, _ in filled([feature]) if start <= p < end + (ahead and first < end)]
                if wanted:
                    mine = self.outputs.get(feature.identifier)
                    assert mine is not None, f"{request_id} lacks {feature.identifier} at {wanted[0]}"
                    n = feature.mm_position.get_num_embeds()
                    assert mine == content(feature.identifier, n), "another image"

    def _as_seen(self, step: Any) -> Any:
        """The step with the content of images in their places, as the model sees it."""
        made = copy.copy(step)
        made.scheduled_new_reqs = [copy.copy(new) for new in step.scheduled_new_reqs]
        for new in made.scheduled_new_reqs:
            mine = self.features[new.req_id]
            new.prompt_token_ids = seen(new.prompt_token_ids, mine)
            if new.prefill_token_ids is not None:
                new.prefill_token_ids = seen(new.prefill_token_ids, mine)
        made.scheduled_cached_reqs = copy.copy(step.scheduled_cached_reqs)
        made.scheduled_cached_reqs.all_token_ids = {
            request_id: seen(tokens, self.features[request_id])
            for request_id, tokens in step.scheduled_cached_reqs.all_token_ids.items()
        }
        return made


@dataclass
class Load(stub.Load):
    """Prompts with images: at their beginnings and ends, many in one, shared between them and repeated within them.
    Some beginnings differ only in an image."""

    count: int = 80
    largest: int = most  #: embeddings of an image
    features: dict[str, list[Any]] = field(default_factory=dict)  #: by request, of the latest `requests`

    def images(self, rng: random.Random) -> list[Image]:
        made = [plain(f"plain {i}", self.largest) for i in range(4)]
        made += [plain(f"small {i}", rng.randrange(1, 12)) for i in range(4)]
        made += [in_lines(f"lines {i}", rng.randrange(1, 5), self.largest // 6) for i in range(4)]
        return made + [plain(f"other {i}", rng.randrange(1, self.largest + 1)) for i in range(6)]

    def requests(self) -> list[Any]:
        rng = random.Random(self.seed)
        images = self.images(rng)

        def text(longest: int) -> list[int]:
            return [rng.randrange(3, 64) for _ in range(rng.randrange(1, longest))]

        before, behind = text(30), text(20)
        beginnings = [[before, image, behind] for image in images[:3]]
        beginnings += [[images[3], before], [images[8], images[9], before]]
        made = []
        for i in range(self.count):
            parts: list[Any] = list(rng.choice(beginnings)) if rng.random() < 0.6 else []
            kind = rng.random()
            if kind < 0.1:  # many
                parts += [text(20), *rng.choices(images[4:8], k=8)]
            elif kind < 0.8:
                for _ in range(rng.randrange(1, 4)):
                    parts += rng.choices([[rng.choice(images)], [text(60), rng.choice(images)]], [1, 3])[0]
                if rng.random() < 0.3:
                    parts += [rng.choice([part for part in parts if isinstance(part, Image)])]
            if not parts or rng.random() < 0.7:
                parts.append(text(80))
            tokens, self.features[str(i)] = prompt_of(parts)
            params = SamplingParams(
                temperature=0, max_tokens=rng.randrange(1, 80), stop_token_ids=[5] if rng.random() < 0.5 else None
            )
            if self.tenants:
                params.extra_args = {"tessera": {"tenant": "abc"[i % 5 % 3]}}
            salt = rng.choice([None, None, None, "a"])
            made.append((str(i), tokens, params, rng.randrange(3) if self.priorities else 0, salt))
        return made

    def request(self, arrival: Any) -> Any:
        return stub.request(*arrival, mm_features=list(self.features[arrival[0]]))

    def answer(self, arrival: Any) -> list[int]:
        request_id, prompt, params, *_ = arrival
        return stub.answer(seen(prompt, self.features[request_id]), params)
