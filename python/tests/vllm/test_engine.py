# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The real engine, token for token: the same prompts under vLLM's own scheduler and under ours.

These take minutes. They run where TESSERA_VLLM_ENGINE is set, as script/python does when its stage is named.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from engine import Result, Setting, run, run_apart
from vllm.config import KVTransferConfig

pytestmark = pytest.mark.skipif(
    not os.environ.get("TESSERA_VLLM_ENGINE"), reason="the real engine takes minutes: set TESSERA_VLLM_ENGINE"
)

tight = Setting(blocks=48, seqs=32, max_output=60)
shared = Setting(caching=True, shared=200, max_prompt=60, max_output=60, blocks=80)
cached = replace(shared, max_prompt=40, blocks=2048)
settings = {
    "roomy": Setting(max_output=80),
    "tight": tight,
    "chunks": Setting(budget=160, chunk=40, max_prompt=300, max_output=60),
    "cache": cached,
    "tight cache": replace(shared, blocks=64, seqs=32, logprobs=True),
    "aborts": replace(shared, prompts=420, aborts=True, logprobs=True),
    "resets": replace(shared, resets=True),
    "priority": replace(tight, policy={"policy": "priority"}, own={"scheduling_policy": "priority"}),
    "pars": replace(shared, policy={"policy": "pars", "threshold": 2}),
    "pascal": replace(shared, policy={"policy": "pascal", "quantum": 20, "end_of_reasoning": 9}),
    "pascal_paced": replace(tight, policy={"policy": "pascal_paced", "quantum": 20, "pace": 0.02}),
    "due_first": replace(tight, policy={"policy": "due_first", "pace": 0.02, "slice": 20}),
    "due_first with resets": replace(shared, policy={"policy": "due_first", "pace": 0.02, "slice": 20}, resets=True),
    "round_robin": replace(shared, policy={"policy": "round_robin", "quantum": 10}),
}


@cache
def _own(key: str) -> Result:
    return run(_by_key[key], ours=False)


_by_key: dict[str, Setting] = {}


def own(setting: Setting) -> Result:
    """vLLM's own run of a setting; once for those that only differ in our policy."""
    key = repr(replace(setting, policy={}))
    _by_key[key] = setting
    return _own(key)


# Two functions, which two processes can run beside each other: they share no run of vLLM's own.
@pytest.mark.parametrize("name", [name for name, setting in settings.items() if setting.caching])
def test_same_tokens_with_cache(name: str) -> None:
    same_tokens(name)


@pytest.mark.parametrize("name", [name for name, setting in settings.items() if not setting.caching])
def test_same_tokens_without_cache(name: str) -> None:
    same_tokens(name)


ngrams = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}}
adapters = {"enable_lora": True, "max_loras": 2, "max_cpu_loras": 5, "max_lora_rank": 8}
long = Setting(blocks=60, seqs=32, max_output=120, max_prompt=60, model="terse", own=ngrams)
engines = {
    "drafts": long,
    "drafts, cache, resets": replace(
        long, caching=True, shared=200, max_prompt=40, blocks=90, resets=True, policy={"policy": "due_first"}
    ),
    "drafts, aborts, chunks": replace(
        long, prompts=420, aborts=True, chunk=40, budget=160, policy={"policy": "pascal", "quantum": 20}
    ),
    "window": replace(long, model="window", blocks=40, own={}),
    "window, cache, resets": replace(
        shared, model="window", blocks=60, resets=True, policy={"policy": "round_robin", "quantum": 10}
    ),
    "window and all": replace(long, model="window and all", blocks=80, own={}),
    "window and all, cache, aborts": replace(
        shared, model="window and all", prompts=420, aborts=True, blocks=120, policy={"policy": "due_first"}
    ),
    "five windows and all": replace(long, prompts=100, model="five windows and all", blocks=160, own={}),
    "pipeline": replace(
        shared,
        prompts=200,
        blocks=72,
        seqs=32,
        aborts=True,
        chunk=40,
        budget=160,
        logprobs=True,
        own={"pipeline_parallel_size": 2, "distributed_executor_backend": "mp"},
        policy={"policy": "pascal", "quantum": 20},
    ),
    "adapters": replace(tight, adapters=5, own=adapters),
    "adapters, cache, pars": replace(
        shared, adapters=5, own=adapters, policy={"policy": "pars", "threshold": 2}, max_prompt=40, scores=True
    ),
}


@pytest.mark.parametrize("name", engines)
def test_same_tokens_apart(name: str) -> None:
    setting = engines[name]
    theirs, ours = (run_apart(setting, ours) for ours in (False, True))
    compare(name, setting, theirs, ours)
    if "drafts" in name:
        # Nor do drafts change what comes out.
        plain = run_apart(replace(setting, own={}), ours=False)
        both = ours.outputs.keys() & plain.outputs.keys() - plain.aborted
        assert all(ours.outputs[i] == plain.outputs[i] for i in both)
        print(f"accepted {theirs.accepted} of {theirs.tried}, {ours.accepted} of {ours.tried}; without {plain.steps}")
        assert ours.accepted > 1000 and ours.tried > ours.accepted and ours.steps < plain.steps


def test_same_tokens_apart_beside_a_store(tmp_path: Path) -> None:
    """vLLM's ExampleConnector: what the first engine has left in files is found by the second one."""
    store = KVTransferConfig(
        kv_connector="ExampleConnector",
        kv_role="kv_both",
        kv_connector_extra_config={"shared_storage_path": str(tmp_path)},
    )
    # Longer than a block: of shorter prompts that connector keeps nothing.
    plain = replace(long, prompts=60, blocks=2048, seqs=16, shared=40, budget=8192, own={})
    theirs = run_apart(plain, ours=False)
    first, second = (run_apart(replace(plain, own=ngrams | {"kv_transfer_config": store}), ours=True) for _ in "12")
    assert theirs.outputs == first.outputs == second.outputs and len(theirs.outputs) == 60
    assert first.accepted > 300 and second.accepted > 300
    assert first.hits < 0.5 * second.hits and second.hits > 2000
    print(f"accepted {first.accepted} and {second.accepted}; hits {first.hits} and {second.hits}")


def same_tokens(name: str) -> None:
    setting = settings[name]
    compare(name, setting, own(setting), run(setting, ours=True))


def compare(name: str, setting: Setting, theirs: Result, ours: Result) -> None:
    assert theirs.scheduler == "vllm.v1.core.sched.scheduler.Scheduler"
    assert ours.scheduler == "tessera.vllm.scheduler.Scheduler"

    gone = theirs.aborted | ours.aborted
    asked = {str(i) for i in range(setting.prompts)} - gone
    assert asked <= ours.outputs.keys() and asked <= theirs.outputs.keys()
    different = [i for i in asked if theirs.outputs[i] != ours.outputs[i]]
    assert not different, f"{len(different)} of {len(asked)}: {different[:5]}"
    for probabilities in ("logprobs", "prompt_logprobs"):
        a, b = getattr(theirs, probabilities), getattr(ours, probabilities)
        for i in a.keys() & b.keys() - gone:
            assert a[i] == pytest.approx(b[i], abs=1e-3)
    print(
        f"\n{name}: {len(asked)} of {len(asked)} equal, {len(gone)} aborted; steps {theirs.steps}, {ours.steps}; "
        f"preempted {theirs.preempted}, {ours.preempted}; hits {theirs.hits}, {ours.hits}; resets {ours.resets}; "
        f"logprobs of {len(ours.logprobs)}, prompt logprobs of {len(ours.prompt_logprobs)}"
    )

    # Else it proves less than it says.
    assert len({tuple(tokens) for tokens, *_ in ours.outputs.values() if len(tokens) > 2}) > 0.8 * len(asked)
    assert {reason for _, reason, _ in ours.outputs.values()} >= {"stop", "length"}
    assert setting.blocks > 200 or ours.preempted > 0 or {*ours.groups} == {"MambaSpec"}  # which do not grow
    assert not setting.caching or ours.hits > 0
    assert not setting.chunk or ours.chunks > 0
    assert len(asked) >= 300 or setting.prompts < 300
    assert not setting.aborts or len(asked) < setting.prompts
    assert not setting.resets or ours.resets > 2
    assert not setting.logprobs or (ours.logprobs and ours.prompt_logprobs)
