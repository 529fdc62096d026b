# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The scheduler of tessera.vllm; use that."""

from typing import Any

adapters: int
groups: int
policies: tuple[str, ...]
state_window: int
tenants: int
sessions: int
version: tuple[int, int, int]

class Core:
    """A scheduler that takes and gives vLLM's objects."""

    def __init__(self, policy: str, options: dict[str, Any], words: dict[str, Any]) -> None: ...
    def submit(self, request: Any, description: dict[str, Any], now: float) -> int | str:
        """A request joins: its slot, or the word of the refusal."""
    def cancel(self, slot: int) -> None:
        """A request ends, whatever it does."""
    def set_option(self, name: str, value: float) -> bool:
        """Gives an option another value, from the next step on. False: there is none of this name."""
    def schedule(self, now: float, budget: int, max_chunk: int, admit: bool, defer_prefills: bool) -> tuple[Any, ...]:
        """Plans a step."""
    def is_early(self) -> bool:
        """Whether the next step would come too early for the engine's pipeline."""
    def new_tokens(self) -> list[list[int]]:
        """For each request of the latest step's list of ids, the tokens that the step computes. Empty where no stage
        needs them."""
    def drafts(self) -> dict[str, list[int]]:
        """The drafts that the latest step verifies, by the ids of the requests that have some."""
    def drafts_are_vain(self) -> bool:
        """Whether no request can use what is drafted in the latest step."""
    def prefills(self) -> bool:
        """Whether the latest step computes a part of a prompt."""
    def decodes(self) -> bool:
        """Whether a request that holds blocks has all of its prompt."""
    def take_drafts(self, slot_of: dict[str, int], req_ids: list[str], guesses: list[list[int]]) -> None:
        """Drafts for the next step, where they are known before it is planned."""
    def loads(self) -> list[tuple[Any, tuple[list[int], ...], int]]:
        """(request, block ids by group, tokens of it that are here already) of each request with KV on its way by the
        latest plan."""
    def lost(self) -> list[Any]:
        """Requests that begin anew since the last call: too little KV has come for their windows."""
    def arrived(self, slot: int, tokens: int) -> None:
        """`tokens` tokens of it have come, and no more will."""
    def drain(self, slot: int) -> int | None:
        """It has ended. Returns the ticket that holds its blocks, or None if they are free."""
    def drained(self, ticket: int) -> None:
        """The blocks of this ticket can be given to others."""
    def let_go(self, slot: int) -> None:
        """It has ended, and its KV is not wanted."""
    def draining(self) -> int:
        """Requests that have ended and still hold blocks."""
    def loading(self) -> int:
        """Requests with KV on its way, or with KV that has come and waits for a place."""
    def coming(self) -> int:
        """The requests among `loading` that have not ended."""
    def encodes(self) -> tuple[dict[str, list[int]], list[int]]:
        """What the encoder does before the latest step: numbers of inputs by the ids of requests, and hashes of outputs
        that it drops first."""
    def forget_outputs(self) -> None:
        """All outputs of the encoder are gone."""
    def events(self) -> list[tuple[Any, ...]]:
        """What the prefix cache has learnt and forgotten."""
    def skip(self) -> None:
        """A step in which nothing runs."""
    def update(
        self,
        index_of: dict[str, int],
        req_ids: list[str],
        sampled: list[list[int]],
        now: float,
        spoilt: list[int] = ...,
    ) -> tuple[dict[int, list[Any]], list[tuple[Any, Any, int, bool, bool]], list[Any], list[tuple[Any, str]]]:
        """Takes in the outcome of a step: (outputs by client, what to look at, requests that ended, requests without a
        usable output and why). `spoilt`: slots of requests with KV that did not come; they lose all of theirs."""
    def forget_prefixes(self) -> None:
        """No prefix is known any more."""
    def reset(self) -> list[Any] | None:
        """All KV is lost: the requests that had some, or None while a step is under way."""
    def running(self) -> int:
        """Requests that hold blocks."""
    def waiting(self) -> int:
        """Requests that hold none."""
    def live(self) -> int:
        """Requests that have not ended."""
    def pending(self) -> bool:
        """Whether a step is under way."""
    def usage(self) -> float:
        """Part of the blocks that requests hold."""
    def why(self, slot: int) -> str:
        """Why a request is not in the latest step."""
    def computed(self, slot: int) -> int:
        """Tokens of a request that have KV once the steps under way have been run."""
    def residents(self) -> list[Any]:
        """The requests that hold blocks, in the order of their turns."""
    def names_of(self, slot: int, group: int) -> list[int]:
        """What the full blocks of a request in a group are found by, from its beginning."""
    def blocks_of(self, slot: int) -> tuple[list[int], ...]:
        """For each group the blocks that a request holds, as the runner has them."""
    def write_tokens(self, slot: int) -> None:
        """Brings a request's lists of tokens up to date."""
    def close(self) -> None:
        """Ends everything."""
