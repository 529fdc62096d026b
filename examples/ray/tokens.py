# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text and tokens: the tokenizer of a model, or numbers as words where there is none."""

from __future__ import annotations

from typing import Any


class Numbers:
    """Token ids as words: "17 4 300". For engines without a model; other words have a number, too."""

    def __init__(self, vocabulary: int = 1000) -> None:
        self._vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        return [self._number(word) for word in text.split()]

    def _number(self, word: str) -> int:
        if word.isascii() and word.isdigit():
            return int(word)
        return 3 + sum(ord(c) * 31**i for i, c in enumerate(word)) % (self._vocabulary - 3)

    def chat(self, messages: list[dict[str, Any]]) -> list[int]:
        return self.encode(" ".join(f"{m['role']} {m['content']}" for m in messages))

    def decoder(self) -> Numbers:
        return self

    def add(self, tokens: list[int], last: bool) -> str:
        return "".join(f" {t}" for t in tokens)


class OfModel:
    """The tokenizer in a model's folder, or of its name."""

    def __init__(self, model: str) -> None:
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(model)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text))

    def chat(self, messages: list[dict[str, Any]]) -> list[int]:
        if not self._tokenizer.chat_template:
            raise ValueError("this model has no chat template")
        text = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decoder(self) -> Incremental:
        return Incremental(self._tokenizer)


class Incremental:
    """Text token by token: characters of several tokens, and blanks that depend on what is before, come out right."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._from = 0  # decoded together with what is new
        self._done = 0  # told

    def add(self, tokens: list[int], last: bool) -> str:
        self._ids += tokens
        before = self._decode(self._ids[self._from : self._done])
        after = self._decode(self._ids[self._from :])
        if not last and (len(after) <= len(before) or after.endswith("\ufffd")):
            return ""
        self._from, self._done = self._done, len(self._ids)
        return after[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))
