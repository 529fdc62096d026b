# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Images, sounds and other inputs that an encoder makes tokens of."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from tessera.vllm import _api as api


@dataclass(slots=True)
class _Input:
    """What is known of an input, as long as a request has it or the runner keeps what was made of it."""

    identifier: str
    size: int  #: tokens that the encoder makes of it
    users: int = 0  #: how often requests have it
    is_kept: bool = False


class Encoder:
    """What the core is told of a request's inputs, and a step of what is encoded and dropped."""

    def __init__(self, budget: Any, is_whole: bool, is_read_ahead: bool) -> None:
        self.budget: int = budget.encoder_compute_budget  #: most tokens that are encoded in a step
        self.cache: int = budget.encoder_cache_size  #: most that are kept
        #: tokens of the longest input, where each is computed in one step; 0: it can be split
        self.longest: int = max(budget.mm_max_toks_per_item.values(), default=0) if is_whole else 0
        #: Tokens around what the encoder makes, as a mark before it, may be in a step without it. A drafter that reads
        #: ahead would miss it.
        self.is_split = not is_whole and not is_read_ahead
        # Without it a user cannot make two inputs with one hash.
        self.key = os.urandom(16)
        self.known: dict[int, _Input] = {}  #: by the hashes of identifiers
        #: for each request the inputs that the core knows: the number among its features, and the hash
        self.of_request: dict[str, list[tuple[int, int]]] = {}

    @classmethod
    def of(cls, vllm_config: Any, mm_registry: Any) -> Encoder | None:
        """None: the model takes text only."""
        if not vllm_config.model_config.supports_multimodal_inputs:
            return None
        is_whole = bool(vllm_config.scheduler_config.disable_chunked_mm_input)
        made = cls(api.encoder_budget(vllm_config, mm_registry), is_whole, api.prompt_ahead(vllm_config) > 0)
        return made if made.cache > 0 else None

    def describe(self, request: Any) -> list[tuple[int, int, int, int]]:
        """A request's inputs for the core: hash, size, place in the prompt, and length there. ValueError if an
        identifier stands for another input already."""
        inputs, mine = [], []
        places = self._places(request.mm_features)
        for number, feature in enumerate(request.mm_features):
            position = feature.mm_position
            size = position.get_num_embeds()
            if not size:
                continue
            digest = hashlib.blake2b(feature.identifier.encode(), digest_size=8, key=self.key).digest()
            name = int.from_bytes(digest, "little")
            known = self.known.setdefault(name, _Input(feature.identifier, size))
            known.users += 1
            mine.append((number, name))
            self.of_request[request.request_id] = mine
            if known.size != size:
                raise ValueError(
                    f"the identifier {feature.identifier!r:.80} stands for an input of {known.size} tokens, not {size}"
                )
            inputs.append((name, size, *places[number]))
        return inputs

    def _places(self, features: list[Any]) -> list[tuple[int, int]]:
        """For each input its first token, and how many there are. Inputs that share tokens, as the sound and the
        pictures of a video, have one place: a step needs all of them. Else two requests could wait for each other.
        ValueError if there is no room for them."""
        places: list[tuple[int, int]] = []
        begin = end = size = 0
        for number, feature in enumerate(features):
            position = feature.mm_position
            if position.offset >= end:
                places.append(self._place(position))
                begin, end, size = position.offset, position.offset + position.length, position.get_num_embeds()
                first = number
            else:
                end = max(end, position.offset + position.length)
                size += position.get_num_embeds()
                places[first:] = [(begin, end - begin)] * (number + 1 - first)
            if size > self.cache:
                raise ValueError(f"inputs of {size} tokens in one place, and room for {self.cache}")
        return places

    def _place(self, position: Any) -> tuple[int, int]:
        """The first token of an input, and how many there are. If it can be split, those around what the encoder makes
        do not count."""
        if not self.is_split or position.is_embed is None:
            return position.offset, position.length
        places = position.is_embed.nonzero()
        first, last = int(places[0]), int(places[-1])
        return position.offset + first, last + 1 - first

    def left(self, request_id: str) -> None:
        """The request has ended."""
        for _, name in self.of_request.pop(request_id, ()):
            known = self.known[name]
            known.users -= 1
            if not known.users and not known.is_kept:
                del self.known[name]

    def planned(self, core: Any, output: Any, with_stats: bool) -> None:
        """Tells a step what is encoded and dropped before it."""
        encoded, dropped = core.encodes()
        for name in dropped:
            known = self.known[name]
            known.is_kept = False
            output.free_encoder_mm_hashes.append(known.identifier)
            if not known.users:
                del self.known[name]
        if not encoded:
            return
        sizes = []
        for request_id, numbers in encoded.items():
            mine = self.of_request[request_id]
            for number in numbers:
                known = self.known[mine[number][1]]
                known.is_kept = True
                sizes.append(known.size)
            output.scheduled_encoder_inputs[request_id] = [mine[number][0] for number in numbers]
        if with_stats:
            output.scheduled_encoder_input_stats = api.encoder_stats(len(sizes), sum(sizes))

    def forget(self) -> None:
        """The runner has dropped all that it kept."""
        for name, known in list(self.known.items()):
            known.is_kept = False
            if not known.users:
                del self.known[name]
