# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a user may write, and what is said if it is wrong. Needs no vLLM."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from tessera.vllm.options import Options, OptionsError, parameters, policies, takes


def half(request: object) -> float:
    return 0.5


@pytest.mark.parametrize("policy", policies)
def test_defaults(policy: str) -> None:
    options = Options.parse({"policy": policy})
    assert options.policy == policy
    assert options.parameters == {name: parameters[name].default for name in takes[policy]}
    assert options.fallback and not options.shadow


def test_nothing_said_is_fcfs() -> None:
    assert Options.parse(None) == Options.parse({}) == Options()


def test_numbers_are_taken_as_they_are_meant() -> None:
    assert Options.parse({"policy": "pascal", "quantum": 20.0}).parameters["quantum"] == 20
    assert isinstance(Options.parse({"policy": "pars", "threshold": 3}).parameters["threshold"], float)
    assert Options.parse({"policy": "pars", "threshold": math.inf}).parameters["threshold"] == math.inf


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "best"}, "unknown policy 'best'; there are: due_first, fcfs, pars, pascal, pascal_paced, priority"),
        ({"policy": ["fcfs"]}, "unknown policy"),
        (3, "must be a dict"),
        ("fcfs", "must be a dict"),
        ({"quantum": 5}, "fcfs does not take quantum; it takes no parameters"),
        ({"policy": "pars", "quantum": 5}, "pars does not take quantum; it takes threshold"),
        ({"policy": "pascal", "quantums": 5}, "unknown option 'quantums'; there are: .*quantum"),
        ({"policy": "pascal", "quantum": 0}, "quantum must be a whole number from 1 to .*, not 0"),
        ({"policy": "pascal", "quantum": 1.5}, "quantum must be a whole number"),
        ({"policy": "pascal", "quantum": True}, "quantum must be a whole number"),
        ({"policy": "pascal", "quantum": "5"}, "quantum must be a whole number .*, not '5'"),
        ({"policy": "pascal", "quantum": None}, "quantum must be a whole number .*, not None"),
        ({"policy": "pascal", "fewest_quanta_first": 1}, "must be true or false, not 1"),
        ({"policy": "due_first", "pace": 0}, "pace must be a number above 0"),
        ({"policy": "due_first", "prompt_pace": -1}, "prompt_pace must be a number from 0 to 1000, not -1"),
        ({"policy": "due_first", "move_pace": 1001}, "move_pace must be a number from 0 to 1000, not 1001"),
        ({"policy": "pascal_paced", "prompt_pace": 1}, "the policy pascal_paced does not take prompt_pace"),
        ({"policy": "due_first", "margin": math.nan}, "margin must be a number from 0"),
        ({"policy": "pars", "threshold": -1}, "threshold must be a number from 0, not -1"),
        ({"policy": "vtc", "output_cost": -1}, "output_cost must be a whole number from 0 to 1000, not -1"),
        ({"policy": "vtc", "weights": [1, 2]}, "weights must be a dict of names and numbers"),
        ({"policy": "vtc", "weights": {"a": 0}}, "the weight of 'a' must be a whole number from 1 to 1000, not 0"),
        ({"policy": "vtc", "weights": {str(i): 1 for i in range(64)}}, "weights must be of at most 63 tenants, not 64"),
        ({"weights": {"a": 2}}, "fcfs has no tenants, so no weights; these have: vtc"),
        ({"watermark": 1.5}, "watermark must be a number from 0 to 1, not 1.5"),
        ({"fallback": "no"}, "fallback must be true or false"),
        ({"end_of_reasoning": -1}, "end_of_reasoning must be a whole number from 0"),
        ({"score": "a:b"}, "fcfs has no use for score; these have: due_first, pars"),
        ({"policy": "pars", "score": "nothing"}, 'score must name a function of a request, as "module:function"'),
        ({"policy": "pars", "score": 4}, "score must name a function"),
        ({"policy": "pars", "score": "no.such.module:f"}, "could not be imported: No module named 'no'"),
        ({"policy": "pars", "score": "math:no_such"}, "could not be imported"),
        ({"policy": "pars", "score": "math:pi"}, "'math:pi' is a float"),
    ],
)
def test_what_is_refused(given: object, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        Options.parse(given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"end_of_reasoning": 5}, "end_of_reasoning"),
        ({"weights": {"a": 2}}, "weights"),
        ({"model": "lengths.rank"}, "model"),
        ({"shadow": True, "margin": 1}, "margin, shadow"),
        ({"Tessera": {"policy": "pars"}}, "Tessera"),
        ({"tessera": {}, "TESSERA": {}}, "TESSERA"),
        ({"policy": "pars", "tessera": {}}, "policy"),
        ({"quantum": 5, "tessera": {"policy": "pascal"}}, "quantum"),
    ],
)
def test_what_is_in_the_wrong_place(given: dict, named: str) -> None:
    with pytest.raises(OptionsError, match=f'tessera: {named}: options go into additional_config={{"tessera"'):
        Options.of(given)


def test_what_other_plugins_are_told_is_theirs() -> None:
    others = {"enable_fast_path": True, "tessera_like": {"policy": "pars"}, 5: None}
    assert Options.of(others) == Options.of(None) == Options()
    assert Options.of({**others, "tessera": {"policy": "pars"}}) == Options.parse({"policy": "pars"})
    with pytest.raises(OptionsError, match="must be a dict of options"):
        Options.of({"tessera": "pars"})


def test_a_function_as_score() -> None:
    options = Options.parse({"policy": "due_first", "score": "math:sqrt"})
    assert options.scorer()(4) == 2
    assert Options.parse({"policy": "pars"}).scorer() is None


def test_check_without_vllm() -> None:
    """Where there is no vLLM it says so, and what the policies take it tells all the same."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['vllm'] = None; sys.argv = ['check', '--check']; "
            "import runpy; runpy.run_module('tessera.vllm', run_name='__main__')",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "vLLM is not installed" in done.stderr
    assert "pascal" in done.stdout
