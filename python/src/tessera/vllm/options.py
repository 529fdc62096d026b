# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a user may say in vLLM's ``additional_config={"tessera": {...}}``, and what is said if it is wrong."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tessera import _vllm
from tessera.rank import Model, load

#: Names of the policies.
policies: tuple[str, ...] = tuple(_vllm.policies)


class OptionsError(ValueError):
    """An option that makes no sense; the message says what is allowed."""


@dataclass(frozen=True)
class Parameter:
    """A number or a switch that some policies take."""

    kind: type
    default: Any
    least: float
    most: float
    meaning: str
    may_be_least: bool = True

    def allowed(self) -> str:
        if self.kind is bool:
            return "true or false"
        what = "a whole number" if self.kind is int else "a number"
        lower = "from" if self.may_be_least else "above"
        return f"{what} {lower} {self.least:g}" + ("" if math.isinf(self.most) else f" to {self.most:g}")

    def check(self, name: str, value: Any) -> Any:
        """The value, as its kind; OptionsError if it is none."""
        if self.kind is bool:
            good = isinstance(value, bool)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            good = False
        else:
            # NaN compares with nothing.
            good = (value >= self.least if self.may_be_least else value > self.least) and value <= self.most
            if self.kind is int:
                good = good and value == int(value)
            elif isinstance(value, int):
                good = good and abs(value) < 2**1000  # it is made a float
        if not good:
            raise OptionsError(f"tessera: {name} must be {self.allowed()}, not {value!r}")
        return self.kind(value)


_INF = math.inf
_TOKENS = 2**40

#: What policies can be told, by name.
parameters: Mapping[str, Parameter] = {
    "threshold": Parameter(float, 120.0, 0, _INF, "seconds after which a request goes ahead of all that came later"),
    "quantum": Parameter(int, 500, 1, _TOKENS, "tokens generated between two turns"),
    "demote_above": Parameter(int, 5000, 0, _TOKENS, "tokens above which reasoning loses its precedence"),
    "fewest_quanta_first": Parameter(bool, True, 0, 1, "turns by the quanta used, not in a circle"),
    "young_quanta": Parameter(int, 2, 0, _TOKENS, "quanta after which reasoning goes by age alone"),
    "pace": Parameter(float, 0.1, 0, 1e6, "seconds in which a reader takes in a token", may_be_least=False),
    "slice": Parameter(int, 250, 1, _TOKENS, "tokens generated between two looks at a reader"),
    "margin": Parameter(float, 1.0, 0, 1e6, "seconds before a reader runs dry at which its answer is urgent"),
    "prompt_pace": Parameter(
        float, 0.0, 0, 1e3, "seconds for which a request is held for each token that its prompt is longer than others'"
    ),
    "move_pace": Parameter(
        float, 0.0, 0, 1e3, "seconds that all wait for each token of KV that makes way and is computed again"
    ),
    "prompt_cost": Parameter(int, 1, 0, 1000, "what a token of a prompt counts for in its tenant's share"),
    "output_cost": Parameter(int, 2, 0, 1000, "what a generated token counts for"),
}

#: Most that a tenant's weight can be.
most_weight = 1000

#: Which policy takes which.
takes: Mapping[str, tuple[str, ...]] = {
    "fcfs": (),
    "priority": (),
    "pars": ("threshold",),
    "shortest_prefill": ("threshold",),
    "pascal": ("quantum", "demote_above", "fewest_quanta_first"),
    "pascal_paced": ("quantum", "young_quanta", "slice", "margin", "pace"),
    "due_first": ("pace", "slice", "margin", "prompt_pace", "move_pace"),
    "round_robin": ("quantum", "fewest_quanta_first"),
    "vtc": ("prompt_cost", "output_cost"),
}
assert set(takes) == set(policies)

#: For all policies: the most tokens of prompts in a step. A prompt with one token left counts as a decode.
prefill_budget = Parameter(int, 0, 0, _TOKENS, "most tokens of prompts in a step; 0: no limit")

#: For all policies: how long prompts may make a step. What steps take is learned while they run.
step_s = Parameter(float, 0.0, 0, 1e3, "seconds that a step may take for its prompts; 0: any time")

#: What all policies can be told while requests run.
for_all: Mapping[str, Parameter] = {"prefill_budget": prefill_budget, "step_s": step_s}

#: Parameters that are those of an engine's start. A request's turns or its tenant's share would mix two measures.
fixed = ("fewest_quanta_first", "prompt_cost", "output_cost")


def settable(policy: str) -> dict[str, Parameter]:
    """The options that `Options.changed` takes, by name."""
    return {**for_all} | {n: parameters[n] for n in takes[policy] if n not in fixed}


#: Policies that look at a request's expected length, and those that know phases.
needs_lengths = ("pars", "due_first")
knows_phases = ("pascal", "pascal_paced", "due_first")
#: Those that share the engine among tenants.
has_tenants = ("vtc",)

_common = (
    "policy",
    *for_all,
    "watermark",
    "fallback",
    "shadow",
    "end_of_reasoning",
    "score",
    "model",
    "model_reads",
    "weights",
)


def _joined(names: Any) -> str:
    return ", ".join(sorted(names))


@dataclass(frozen=True)
class Options:
    """A user's choice, checked."""

    policy: str = "fcfs"
    #: Most tokens of prompts in a step; 0: as many as it has room for.
    prefill_budget: int = 0
    #: Most seconds that a step takes with prompts; 0: as long as it takes.
    step_s: float = 0.0
    #: Part of the blocks kept free when a request starts; None: what vLLM's configuration says.
    watermark: float | None = None
    #: What cannot be had is done by vLLM's own scheduler; False: it is an error at start.
    fallback: bool = True
    #: vLLM's own scheduler decides; the policy is only watched.
    shadow: bool = False
    #: The token that ends reasoning; None: requests do not reason.
    end_of_reasoning: int | None = None
    #: A function of a request that says how long its output will be, as "module:function"; None: its max_tokens.
    score: str | None = None
    #: A file of `tessera.rank`, or of the tool `rank`, that says it instead.
    model: str | None = None
    #: What the model was trained on: "tokens", ids of this engine's tokenizer, or "text".
    model_reads: str = "tokens"
    #: Shares of tenants, by name; a tenant that is not named has 1.
    weights: dict[str, int] = field(default_factory=dict)
    #: The policy's own.
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, additional_config: Any) -> Options:
        """What vLLM's ``additional_config`` says. Its other keys are other plugins', except those that are named as
        options of this one. Raises OptionsError."""
        if not isinstance(additional_config, Mapping):
            return cls.parse(None)
        ours = {*_common, *parameters}
        wrong = [
            name
            for name in additional_config
            if isinstance(name, str) and name != "tessera" and (name in ours or name.lower() == "tessera")
        ]
        if wrong:
            raise OptionsError(
                f'tessera: {_joined(wrong)}: options go into additional_config={{"tessera": {{...}}}}, by that name'
            )
        return cls.parse(additional_config.get("tessera"))

    @classmethod
    def parse(cls, given: Any) -> Options:
        """Checks what a user has written. Raises OptionsError, which says what is allowed."""
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise OptionsError(f'tessera: additional_config["tessera"] must be a dict of options, not {given!r}')
        policy = given.get("policy", "fcfs")
        if not isinstance(policy, str) or policy not in takes:
            raise OptionsError(f"tessera: unknown policy {policy!r}; there are: {_joined(takes)}")
        own = takes[policy]
        for name in given:
            if name in _common or name in own:
                continue
            if name in parameters:
                mine = _joined(own) if own else "no parameters"
                raise OptionsError(f"tessera: the policy {policy} does not take {name}; it takes {mine}")
            raise OptionsError(f"tessera: unknown option {name!r}; there are: {_joined((*_common, *own))}")

        values: dict[str, Any] = {"policy": policy}
        if given.get("watermark") is not None:
            share = Parameter(float, 0.01, 0, 1, "part of the blocks kept free")
            values["watermark"] = share.check("watermark", given["watermark"])
        for name, parameter in for_all.items():
            if given.get(name) is not None:
                values[name] = parameter.check(name, given[name])
        for name in ("fallback", "shadow"):
            if name in given:
                values[name] = Parameter(bool, False, 0, 1, "").check(name, given[name])
        if given.get("end_of_reasoning") is not None:
            token = Parameter(int, 0, 0, 2**31 - 1, "a token")
            values["end_of_reasoning"] = token.check("end_of_reasoning", given["end_of_reasoning"])
        if given.get("score") is not None:
            if policy not in needs_lengths:
                raise OptionsError(
                    f"tessera: the policy {policy} has no use for score; these have: {_joined(needs_lengths)}"
                )
            values["score"] = given["score"]
            _function(given["score"])
        if given.get("model") is not None:
            if policy not in needs_lengths:
                raise OptionsError(
                    f"tessera: the policy {policy} has no use for model; these have: {_joined(needs_lengths)}"
                )
            if values.get("score") is not None:
                raise OptionsError("tessera: score or model, not both")
            values["model"] = given["model"]
            _model(given["model"])
        if given.get("model_reads") is not None:
            if given["model_reads"] not in ("tokens", "text"):
                raise OptionsError(f'tessera: model_reads must be "tokens" or "text", not {given["model_reads"]!r}')
            if values.get("model") is None:
                raise OptionsError("tessera: model_reads needs model")
            values["model_reads"] = given["model_reads"]
        if given.get("weights") is not None:
            if policy not in has_tenants:
                raise OptionsError(
                    f"tessera: the policy {policy} has no tenants, so no weights; these have: {_joined(has_tenants)}"
                )
            values["weights"] = _weights(given["weights"])
        values["parameters"] = {
            name: parameters[name].check(name, given.get(name, parameters[name].default)) for name in own
        }
        return cls(**values)

    def changed(self, name: str, value: Any) -> Options:
        """The same with another value of an option that can be set while requests run. Raises OptionsError."""
        can = settable(self.policy)
        if name not in can:
            raise OptionsError(f"tessera: {name!r} cannot be set while {self.policy} runs; these can: {_joined(can)}")
        checked = can[name].check(name, value)
        if name in for_all:
            return replace(self, **{name: checked})
        return replace(self, parameters=self.parameters | {name: checked})

    def scorer(self) -> Callable[[Any], float] | None:
        """The function that `score` names."""
        return None if self.score is None else _function(self.score)

    def predictor(self) -> Model | None:
        """The model in the file that `model` names."""
        return None if self.model is None else _model(self.model)


def _weights(given: Any) -> dict[str, int]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise OptionsError(f'tessera: weights must be a dict of names and numbers, as {{"team-a": 2}}, not {given!r}')
    # The last place is for all tenants that are not told apart.
    if len(given) >= _vllm.tenants:
        raise OptionsError(f"tessera: weights must be of at most {_vllm.tenants - 1} tenants, not {len(given)}")
    weight = Parameter(int, 1, 1, most_weight, "")
    return {name: weight.check(f"the weight of {name!r}", value) for name, value in given.items()}


def _model(path: Any) -> Model:
    if not isinstance(path, str):
        raise OptionsError(f"tessera: model must be the path of a file that tessera.rank wrote, not {path!r}")
    try:
        return load(path)
    except (OSError, ValueError) as error:
        raise OptionsError(f"tessera: model must be a file that tessera.rank wrote: {error}") from error


def _function(name: Any) -> Callable[[Any], float]:
    wanted = 'score must name a function of a request, as "module:function"'
    if not isinstance(name, str) or name.count(":") != 1:
        raise OptionsError(f"tessera: {wanted}, not {name!r}")
    module, attribute = name.split(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # the module is the user's
        raise OptionsError(f"tessera: {wanted}; {name!r} could not be imported: {error}") from error
    if not callable(function):
        raise OptionsError(f"tessera: {wanted}; {name!r} is a {type(function).__name__}")
    return function
