# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's real engine on a CPU: the same load under one scheduler and another."""

from __future__ import annotations

import gc
import pickle
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import model

model.prepare()

import vision_model  # noqa: E402
from vllm import EngineArgs, SamplingParams  # noqa: E402
from vllm.lora.request import LoRARequest  # noqa: E402
from vllm.v1.engine.llm_engine import LLMEngine  # noqa: E402


@dataclass(frozen=True)
class Setting:
    """A load and an engine for it."""

    policy: dict = field(default_factory=lambda: {"policy": "fcfs"})
    prompts: int = 300
    blocks: int = 2048  #: of 32 tokens
    seqs: int = 64
    budget: int = 512
    caching: bool = False
    shared: int = 0  #: tokens of a beginning of which there are five
    max_prompt: int = 160
    max_output: int = 60
    chunk: int = 0
    aborts: bool = False
    resets: bool = False
    pauses: bool = False
    logprobs: bool = False
    margins: bool = False  #: by how much is each token ahead of the next best?
    model: str = "llama"  #: what kind of one
    images: int = 0  #: prompts have one to three of so many, and `model` is one of vision_model.py
    adapters: int = 0  #: requests want one of so many
    scores: bool = False  #: requests say how long they expect their outputs to be
    own: dict = field(default_factory=dict)  #: more of vLLM's options


@dataclass
class Result:
    outputs: dict[str, tuple[list[int], str | None, Any]] = field(default_factory=dict)
    logprobs: dict[str, list[float]] = field(default_factory=dict)
    prompt_logprobs: dict[str, list[float]] = field(default_factory=dict)
    margins: dict[str, list[tuple[int, float]]] = field(default_factory=dict)  #: the next best, and its distance
    groups: list[str] = field(default_factory=list)  #: of KV blocks, by what their layers are
    aborted: set[str] = field(default_factory=set)
    scheduler: str = ""
    steps: int = 0
    preempted: int = 0
    resets: int = 0
    hits: int = 0
    chunks: int = 0
    tried: int = 0
    accepted: int = 0
    encoded: int = 0


def engine(setting: Setting, ours: bool, **more: Any) -> LLMEngine:
    chosen: dict[str, Any] = dict(setting.own) | more
    if "model" in (drafter := chosen.get("speculative_config", {})):
        chosen["speculative_config"] = drafter | {"model": model.folder(drafter["model"])}
    if ours:
        chosen["scheduler_cls"] = "tessera.vllm.Scheduler"
        chosen["additional_config"] = {"tessera": {"fallback": False, **setting.policy}}
    return LLMEngine.from_engine_args(
        EngineArgs(
            **{
                "model": (vision_model if setting.images else model).folder(setting.model),
                "skip_tokenizer_init": not setting.images,
                "dtype": "float32",
                "max_model_len": 1024,
                "enforce_eager": True,
                "max_num_seqs": setting.seqs,
                "max_num_batched_tokens": setting.budget,
                "enable_prefix_caching": setting.caching,
                "block_size": 32,
                "num_gpu_blocks_override": setting.blocks,
                "long_prefill_token_threshold": setting.chunk,
                "kv_cache_memory_bytes": 1 << 29,
                "disable_log_stats": False,
                **chosen,
            }
        )
    )


def load(setting: Setting) -> list[tuple[str, dict[str, Any], SamplingParams, int]]:
    """Requests: names, prompts, parameters and priorities."""
    rng, guesses, pictures = random.Random(1), random.Random(3), random.Random(4)
    words = vision_model.marks(setting.model).start if setting.images else model.vocabulary
    beginnings = [[rng.randrange(3, words) for _ in range(setting.shared)] for _ in range(5)]
    made = []
    for i in range(setting.prompts):
        prompt = list(rng.choice(beginnings)) if setting.shared else []
        prompt += [rng.randrange(3, words) for _ in range(rng.randrange(1, setting.max_prompt))]
        most = rng.randrange(1, setting.max_output)
        params = SamplingParams(
            temperature=0,
            max_tokens=most,
            min_tokens=min(most, 5) if i % 7 == 0 else 0,
            ignore_eos=rng.random() < 0.3,
            stop_token_ids=list(range(7, 60)) if i % 3 == 0 else None,
            detokenize=False,
            logprobs=2 if setting.margins or (setting.logprobs and i % 4 == 0) else None,
            prompt_logprobs=1 if setting.logprobs and i % 10 == 0 else None,
        )
        if setting.scores:
            params.extra_args = {"tessera": {"score": guesses.uniform(0, 2 * most)}}
        inputs: dict[str, Any] = {"prompt_token_ids": prompt}
        if setting.images:
            numbers = [int(pictures.random() * setting.images) for _ in range(pictures.randrange(1, 4))]
            for _ in numbers:
                prompt.insert(
                    pictures.choice((0, pictures.randrange(len(prompt) + 1))), vision_model.mark(setting.model)
                )
            inputs["multi_modal_data"] = {"image": [vision_model.image(number) for number in numbers]}
        made.append((str(i), inputs, params, rng.randrange(3)))
    return made


def run(setting: Setting, ours: bool, **more: Any) -> Result:
    e = engine(setting, ours, **more)
    if setting.own.get("pipeline_parallel_size", 1) > 1:
        # A later stage makes its buffers in its first step without requests. On a CPU, if the model is not compiled,
        # vLLM runs no such step at start.
        e.collective_rpc("execute_dummy_batch")
    try:
        return _drive(e, setting)
    finally:
        e.engine_core.shutdown()
        del e
        gc.collect()


def run_apart(setting: Setting, ours: bool) -> Result:
    """In a process of its own: what vLLM loads for one engine disturbs it when it starts another."""
    return run_all_apart([(setting, ours)])[0]


def run_all_apart(runs: list[tuple[Setting, bool]]) -> list[Result]:
    """One after the other in one process, for engines of one model, which do not disturb each other."""
    with tempfile.NamedTemporaryFile() as kept:
        done = subprocess.run(
            [sys.executable, "-c", f"import engine; engine._run_and_keep({kept.name!r})"],
            cwd=Path(__file__).parent,
            input=pickle.dumps(runs),
            capture_output=True,
            timeout=1200,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:].decode()
        return pickle.loads(Path(kept.name).read_bytes())


def _run_and_keep(path: str) -> None:
    runs = pickle.loads(sys.stdin.buffer.read())
    Path(path).write_bytes(pickle.dumps([run(setting, ours) for setting, ours in runs]))


def next_best(entry: dict[int, Any], token: int) -> tuple[int, float]:
    """The most probable other token, and how much less its logarithm is than that of the chosen token."""
    other = max((t for t in entry if t != token), key=lambda t: entry[t].logprob)
    return other, entry[token].logprob - entry[other].logprob


def _drive(e: LLMEngine, setting: Setting) -> Result:
    s = e.engine_core.engine_core.scheduler
    result = Result(scheduler=f"{type(s).__module__}.{type(s).__name__}")
    # The stages of a pipeline have their memory in processes of their own.
    if worker := getattr(e.engine_core.engine_core.model_executor, "driver_worker", None):
        groups = worker.worker.model_runner.kv_cache_config.kv_cache_groups
        result.groups = [type(group.kv_cache_spec).__name__ for group in groups]
    plan = s.schedule

    def counted(*arguments: Any, **named: Any) -> Any:
        step = plan(*arguments, **named)
        result.preempted += len(step.preempted_req_ids or ())
        result.hits += sum(n.num_computed_tokens for n in step.scheduled_new_reqs)
        result.encoded += sum(map(len, step.scheduled_encoder_inputs.values()))
        result.chunks += sum(
            step.num_scheduled_tokens[n.req_id] < len(n.prompt_token_ids) - n.num_computed_tokens
            for n in step.scheduled_new_reqs
        )
        return step

    take_in = s.update_from_output

    def counted_outputs(step: Any, ran: Any) -> Any:
        for request_id, drafts in step.scheduled_spec_decode_tokens.items():
            result.tried += len(drafts)
            result.accepted += max(len(ran.sampled_token_ids[ran.req_id_to_index[request_id]]) - 1, 0)
        return take_in(step, ran)

    s.schedule, s.update_from_output = counted, counted_outputs
    rng = random.Random(2)
    arrivals = load(setting)
    with_priorities = s.vllm_config.scheduler_config.policy == "priority"
    live: list[str] = []
    i = 0
    while i < len(arrivals) or e.has_unfinished_requests():
        for _ in range(8):
            if i < len(arrivals):
                request_id, inputs, params, priority = arrivals[i]
                # None without: in a batch with others, vLLM on a CPU gives those whatever adapter is in the last place.
                number = 1 + i % setting.adapters if setting.adapters else 0
                e.add_request(
                    request_id,
                    inputs,
                    params,
                    priority=priority if with_priorities else 0,
                    lora_request=LoRARequest(str(number), number, model.adapter(number)) if number else None,
                )
                live.append(request_id)
                i += 1
        if setting.aborts and result.steps % 12 == 11:
            left = [r for r in live if r not in result.outputs]
            if left:
                gone = rng.choice(left)
                e.abort_request([gone])
                result.aborted.add(gone)
                live.remove(gone)
        if setting.resets and result.steps % 50 == 49:
            assert e.reset_prefix_cache(True)
            result.resets += 1
        for output in e.step():
            if not output.finished:
                continue
            o = output.outputs[0]
            result.outputs[output.request_id] = (list(o.token_ids), o.finish_reason, o.stop_reason)
            if o.logprobs:
                result.logprobs[output.request_id] = [
                    entry[token].logprob for entry, token in zip(o.logprobs, o.token_ids, strict=True)
                ]
            if setting.margins:
                result.margins[output.request_id] = [
                    next_best(entry, token) for entry, token in zip(o.logprobs, o.token_ids, strict=True)
                ]
            if output.prompt_logprobs:
                result.prompt_logprobs[output.request_id] = [
                    entry[token].logprob
                    for entry, token in zip(output.prompt_logprobs[1:], output.prompt_token_ids[1:], strict=True)
                ]
        result.steps += 1
        assert result.steps < 50_000, "it does not come to an end"
    assert s.get_kv_cache_usage() == 0
    assert s.get_request_counts() == (0, 0)
    return result
