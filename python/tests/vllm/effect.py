# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a policy is worth on vLLM's real engine, on a CPU: the same requests, and the same tokens, in another order.

    python effect.py reasoner                        # the tiny reasoning model: sums of 1 to 20 items, until it stops
    python effect.py prompts --prompts LOG.jsonl     # a random model; prompts and output lengths of a log

A line of LOG.jsonl has `prompt` and `output_tokens`. What is served is drawn from one half of the log, and the model of
lengths learns from the other half. Requests come at random in engine steps, by default more of them than the engine
carries, and memory is scarce. The reasoner's answers begin behind `</think>`; those of `prompts` with the first token.

Latencies are in steps: the same in every run, however busy the machine. A step counts for the policies as 20 ms,
whatever it takes. Beside them, processor seconds of this process. `--seeds 1 2 --json A` and `--combine A B` put a run
together from several processes.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import model
import reasoner

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # its warnings go to where the tables go
model.prepare()

from vllm import EngineArgs, SamplingParams  # noqa: E402
from vllm.v1.engine.llm_engine import LLMEngine  # noqa: E402

import tessera.vllm.scheduler  # noqa: E402
from tessera import rank  # noqa: E402

#: What the policies take a step to last, in seconds.
step_s = 0.02
#: Two-sided 95 % points of Student's t, by degrees of freedom.
student = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


@dataclass(frozen=True)
class Call:
    """A request that will come."""

    at: int  #: the step before which it comes
    tokens: tuple[int, ...]
    text: str
    most: int  #: tokens it may generate; with a length that is given, so many
    stops: bool  #: by itself


@dataclass
class Served:
    """How it went, request by request."""

    outputs: list[list[int]] = field(default_factory=list)
    answer_ttft: list[int] = field(default_factory=list)  #: in steps, to the first token that is no reasoning
    latency: list[int] = field(default_factory=list)
    per_token: list[float] = field(default_factory=list)
    answer_ttft_cpu: list[float] = field(default_factory=list)
    latency_cpu: list[float] = field(default_factory=list)
    steps: int = 0
    cpu: float = 0.0
    preempted: int = 0


@dataclass
class Load:
    """Requests, and an engine that has not quite enough for them."""

    name: str
    calls: Callable[[int], list[Call]]
    log: Callable[[], tuple[list[Call], list[int]]]  #: what a model of lengths may learn from
    rows: dict[str, tuple[dict | None, str]]  #: by name: the options, or vLLM's own; what is told of lengths
    engine: dict[str, Any]
    reads: str  #: what the model of lengths reads
    end_of_reasoning: int | None = None


class Clock:
    """The policies' clock: steps, not what they happen to take on a machine that others use as well."""

    step = 0

    def install(self) -> None:
        tessera.vllm.scheduler.time = SimpleNamespace(monotonic=lambda: self.step * step_s)


clock = Clock()


def start(load: Load, own: dict | None) -> LLMEngine:
    clock.install()
    chosen = dict(load.engine)
    if own is not None:
        chosen["scheduler_cls"] = "tessera.vllm.Scheduler"
        chosen["additional_config"] = {"tessera": {"fallback": False, **own}}
    return LLMEngine.from_engine_args(
        EngineArgs(
            dtype="float32",
            enforce_eager=True,
            block_size=32,
            enable_prefix_caching=False,
            kv_cache_memory_bytes=1 << 28,
            disable_log_stats=True,
            **chosen,
        )
    )


def stop(e: LLMEngine) -> None:
    e.engine_core.shutdown()
    gc.collect()


def serve(e: LLMEngine, calls: Sequence[Call], end_of_reasoning: int | None, lengths: Sequence[int] | None) -> Served:
    """Serves them as they come. `lengths`: told to the policy, as their scores."""
    s = e.engine_core.engine_core.scheduler
    served, plan = Served(), s.schedule

    def counted(*arguments: Any, **named: Any) -> Any:
        step = plan(*arguments, **named)
        served.preempted += len(step.preempted_req_ids or ())
        return step

    s.schedule = counted
    n, begin = len(calls), clock.step
    come_cpu, said, ended = [0.0] * n, [[] for _ in range(n)], [False] * n
    served.answer_ttft, served.latency = [0] * n, [0] * n
    served.answer_ttft_cpu, served.latency_cpu = [0.0] * n, [0.0] * n
    i, start_cpu = 0, time.process_time()
    while i < n or e.has_unfinished_requests():
        while i < n and calls[i].at <= clock.step - begin:
            c = calls[i]
            params = SamplingParams(
                temperature=0,
                max_tokens=c.most,
                stop_token_ids=[reasoner.end] if c.stops else None,
                ignore_eos=not c.stops,
                detokenize=False,
                extra_args=None if lengths is None else {"tessera": {"score": lengths[i]}},
            )
            come_cpu[i] = time.process_time()
            e.add_request(str(i), {"prompt_token_ids": list(c.tokens)}, params)
            i += 1
        clock.step += 1
        if not e.has_unfinished_requests():
            continue
        outputs = e.step()
        now, now_cpu = clock.step - begin, time.process_time()
        for output in outputs:
            k, tokens = int(output.request_id), list(output.outputs[0].token_ids)
            reasons = end_of_reasoning is not None
            if not served.answer_ttft[k] and (not reasons or end_of_reasoning in tokens[:-1]):
                served.answer_ttft[k] = now - calls[k].at
                served.answer_ttft_cpu[k] = now_cpu - come_cpu[k]
            if output.finished:
                said[k], ended[k] = tokens, True
                served.latency[k] = now - calls[k].at
                served.latency_cpu[k] = now_cpu - come_cpu[k]
        assert clock.step - begin < 100_000, "it does not come to an end"
    s.schedule = plan
    assert all(ended) and s.get_kv_cache_usage() == 0
    assert all(served.answer_ttft), "an answer has no token"
    served.outputs = said
    served.per_token = [a / len(b) for a, b in zip(served.latency, said, strict=True)]
    served.steps, served.cpu = clock.step - begin, time.process_time() - start_cpu
    return served


def arrivals(rng: random.Random, count: int, rate: float) -> list[int]:
    at, steps = 0.0, []
    for _ in range(count):
        at += rng.expovariate(rate)
        steps.append(int(at))
    return steps


# -- the loads


def sums(count: int, rate: float) -> Load:
    folder = tempfile.TemporaryDirectory(prefix="tessera-reasoner-")
    model._kept.append(folder)
    reasoner.convert(folder.name)

    def call(at: int, rng: random.Random) -> Call:
        prompt = reasoner.draw_prompt(rng, rng.randrange(1, 21))
        return Call(at, tuple(reasoner.encode(prompt)), prompt, reasoner.longest_output, True)

    def calls(seed: int) -> list[Call]:
        rng = random.Random(seed)
        return [call(at, rng) for at in arrivals(rng, count, rate)]

    engine = {
        "model": folder.name,
        "skip_tokenizer_init": True,
        "max_model_len": 512,
        "max_num_seqs": 32,
        "max_num_batched_tokens": 512,
        "num_gpu_blocks_override": 65,
    }

    def log() -> tuple[list[Call], list[int]]:
        """Other requests, served before."""
        rng = random.Random(1_000_000)
        before = [call(0, rng) for _ in range(400)]
        e = start(
            Load("log", calls, log, {}, engine | {"max_num_seqs": 128, "num_gpu_blocks_override": 1025}, ""), None
        )
        try:
            return before, [len(tokens) for tokens in serve(e, before, None, None).outputs]
        finally:
            stop(e)

    # Quanta and slices: a sixteenth of what they are if nothing is said. So much shorter is what it says.
    ends = {"end_of_reasoning": reasoner.end_of_reasoning}
    rows = {
        "vLLM's own": (None, ""),
        "fcfs": ({"policy": "fcfs"}, ""),
        "pascal": ({"policy": "pascal", "quantum": 32, **ends}, ""),
        "pascal_paced": ({"policy": "pascal_paced", "quantum": 32, "slice": 16, **ends}, ""),
        "due_first": ({"policy": "due_first", "slice": 16, **ends}, ""),
        "due_first, a model": ({"policy": "due_first", "slice": 16, **ends}, "model"),
        "pars, a model": ({"policy": "pars"}, "model"),
        "pars, true lengths": ({"policy": "pars"}, "truth"),
    }
    return Load("reasoner", calls, log, rows, engine, "tokens", reasoner.end_of_reasoning)


def prompts(count: int, rate: float, path: str) -> Load:
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    try:
        pairs = [(line["prompt"], int(line["output_tokens"])) for line in lines]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: wanted lines of JSON with `prompt` and `output_tokens`, and {error} is not there"
        ) from error
    # A token is a byte here; what is longer than the engine's context is left out.
    pairs = [(text, length) for text, length in pairs if length > 0 and text and len(text.encode()) + length < 1000]
    if len(pairs) < count + 500:
        raise ValueError(
            f"{path}: wanted at least {count + 500} prompts of fewer than 1000 bytes, and there are {len(pairs)}"
        )
    random.Random(7).shuffle(pairs)
    known, unseen = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    folder = model.folder()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def call(at: int, text: str, length: int) -> Call:
        return Call(at, tuple(tokenizer.encode(text)), text, length, False)

    def calls(seed: int) -> list[Call]:
        rng = random.Random(seed)
        drawn = rng.sample(unseen, count)
        return [call(at, *pair) for at, pair in zip(arrivals(rng, count, rate), drawn, strict=True)]

    def log() -> tuple[list[Call], list[int]]:
        return [call(0, *pair) for pair in known], [length for _, length in known]

    engine = {
        "model": folder,
        "max_model_len": 1024,
        "max_num_seqs": 32,
        "max_num_batched_tokens": 512,
        "num_gpu_blocks_override": 161,
    }
    rows = {
        "vLLM's own": (None, ""),
        "fcfs": ({"policy": "fcfs"}, ""),
        "pars, a model": ({"policy": "pars"}, "model"),
        "pars, true lengths": ({"policy": "pars"}, "truth"),
        "due_first, a model": ({"policy": "due_first"}, "model"),
        "due_first, true lengths": ({"policy": "due_first"}, "truth"),
    }
    return Load("prompts", calls, log, rows, engine, "text")


# -- the runs


def run(load: Load, seeds: Sequence[int], only: Sequence[str], kept_in: str) -> dict[str, Any]:
    rows = {name: row for name, row in load.rows.items() if not only or name in only or row[0] is None}
    result: dict[str, Any] = {"load": load.name, "tau_b": {}, "rows": {name: {} for name in rows}}
    work = {seed: load.calls(seed) for seed in seeds}
    truth: dict[int, list[list[int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        learnt = Path(folder) / "lengths.rank"
        predicts = any(told == "model" for _, told in rows.values())
        if predicts:
            log, log_lengths = load.log()
            reads = [c.text if load.reads == "text" else c.tokens for c in log]
            lengths_model = rank.train(reads, log_lengths)
            rank.save(lengths_model, learnt)
        for name, (own, told) in rows.items():
            own = None if own is None else dict(own)
            if told == "model":
                own |= {"model": str(learnt), "model_reads": load.reads}
            e = start(load, own)
            s = e.engine_core.engine_core.scheduler
            wanted = "vllm.v1.core.sched" if own is None else "tessera.vllm"
            assert type(s).__module__.startswith(wanted), type(s)
            for seed in seeds:
                if told == "model":
                    # It has seen what ended in the log, and nothing of other seeds.
                    s.describer.predictor.calibrator = known = rank.LengthCalibrator()
                    for score, length in zip(lengths_model.scores(reads), log_lengths, strict=True):
                        known.observe(score, length)
                    known.fit()
                lengths = [len(tokens) for tokens in truth[seed]] if told == "truth" else None
                served = serve(e, work[seed], load.end_of_reasoning, lengths)
                if own is None:
                    truth[seed] = served.outputs
                    if predicts:
                        mine = [c.text if load.reads == "text" else c.tokens for c in work[seed]]
                        result["tau_b"][seed] = lengths_model.tau_b(mine, [len(o) for o in served.outputs])[0]
                # The order changes, and nothing else.
                different = [i for i, (a, b) in enumerate(zip(served.outputs, truth[seed], strict=True)) if a != b]
                assert not different, f"{name}, seed {seed}: other tokens for {different[:5]}"
                kept = asdict(served)
                kept["output_tokens"] = [len(o) for o in kept.pop("outputs")]
                result["rows"][name][str(seed)] = kept
                print(
                    f"{name}, seed {seed}: {served.steps} steps, {served.cpu:.1f} s, {served.preempted} preempted, "
                    f"answer after {statistics.mean(served.answer_ttft):.0f}, P99 {p99(served.answer_ttft):.0f}; "
                    f"all after {statistics.mean(served.latency):.0f}, P99 {p99(served.latency):.0f}",
                    file=sys.stderr,
                    flush=True,
                )
            stop(e)
            del e, s
            if kept_in:
                Path(kept_in).write_text(json.dumps(result))
    return result


def p99(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def interval(values: Sequence[float], digits: int) -> str:
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.{digits}f}"
    half = student[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


columns: dict[str, tuple[Callable[[dict], float], int]] = {
    "answer's TTFT": (lambda r: statistics.mean(r["answer_ttft"]), 0),
    "P99": (lambda r: p99(r["answer_ttft"]), 0),
    "latency": (lambda r: statistics.mean(r["latency"]), 0),
    "P99 ": (lambda r: p99(r["latency"]), 0),
    "per token": (lambda r: statistics.mean(r["per_token"]), 2),
    "P99  ": (lambda r: p99(r["per_token"]), 1),
    "steps": (lambda r: r["steps"], 0),
    "preempted": (lambda r: r["preempted"], 0),
}
in_seconds: dict[str, tuple[Callable[[dict], float], int]] = {
    "answer's TTFT, s": (lambda r: statistics.mean(r["answer_ttft_cpu"]), 2),
    "P99": (lambda r: p99(r["answer_ttft_cpu"]), 2),
    "latency, s": (lambda r: statistics.mean(r["latency_cpu"]), 2),
    "P99 ": (lambda r: p99(r["latency_cpu"]), 2),
    "whole run, s": (lambda r: r["cpu"], 1),
    "a step, ms": (lambda r: 1e3 * r["cpu"] / r["steps"], 2),
}


def table(rows: dict[str, dict[str, dict]], chosen: dict[str, tuple[Callable[[dict], float], int]]) -> str:
    lines = ["| | " + " | ".join(name.strip() for name in chosen) + " |", "|---|" + "---|" * len(chosen)]
    for name, by_seed in rows.items():
        cells = (interval([value(r) for r in by_seed.values()], digits) for value, digits in chosen.values())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gains(rows: dict[str, dict[str, dict]]) -> str:
    """By how much vLLM's own is worse: quotients seed by seed."""
    lines = ["| vLLM's own, over | answer's TTFT | P99 | latency | P99 | per token | P99 |", "|---|" + "---|" * 6]
    base = rows["vLLM's own"]
    for name, by_seed in rows.items():
        if by_seed is base:
            continue
        cells = []
        for value, _ in list(columns.values())[:6]:
            cells.append(interval([value(base[seed]) / value(r) for seed, r in by_seed.items()], 2))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def combine(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    whole = parts[0]
    for part in parts[1:]:
        whole["tau_b"] |= part["tau_b"]
        for name, by_seed in part["rows"].items():
            whole["rows"].setdefault(name, {}).update(by_seed)
    return whole


def show(result: dict[str, Any]) -> None:
    rows = {name: by_seed for name, by_seed in result["rows"].items() if by_seed}
    base = rows["vLLM's own"]
    lengths = [n for r in base.values() for n in r["output_tokens"]]
    most = max(lengths)
    each = len(next(iter(base.values()))["latency"])
    print(f"{result['load']}: {len(base)} seeds of {each} requests, the same tokens in all")
    print(f"output tokens: mean {statistics.mean(lengths):.1f}, most {most}")
    if result["tau_b"]:
        print(f"tau-b of the model on what was served: {interval(list(result['tau_b'].values()), 3)}")
    print("\nIn engine steps:\n\n" + table(rows, columns) + "\n\n" + gains(rows))
    print("\nIn processor seconds:\n\n" + table(rows, in_seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("load", nargs="?", choices=["reasoner", "prompts"])
    parser.add_argument("--prompts", default="", help="the log, as JSON lines")
    parser.add_argument("--requests", type=int, default=160)
    parser.add_argument("--rate", type=float, default=0.0, help="requests a step; if not given, the load's own")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--rows", nargs="+", default=[], help="some of the policies, by their names in the table")
    parser.add_argument("--json", default="", help="what was measured goes there as well")
    parser.add_argument("--combine", nargs="+", default=[], help="such files: runs nothing, shows them together")
    a = parser.parse_args()
    try:
        if a.combine:
            result = combine([json.loads(Path(path).read_text()) for path in a.combine])
        elif a.load is None:
            parser.error("wanted a load, reasoner or prompts, or --combine")
        else:
            if a.load == "prompts" and not a.prompts:
                parser.error("the load prompts wants --prompts LOG.jsonl")
            if a.requests < 1 or a.rate < 0 or len(set(a.seeds)) != len(a.seeds) or len(a.seeds) > 10:
                parser.error("wanted requests from 1, a rate from 0, and up to 10 seeds that differ")
            load = (
                sums(a.requests, a.rate or 0.15)
                if a.load == "reasoner"
                else prompts(a.requests, a.rate or 0.4, a.prompts)
            )
            if unknown := set(a.rows) - set(load.rows):
                parser.error(f"unknown rows {sorted(unknown)}; there are: {', '.join(load.rows)}")
            result = run(load, a.seeds, a.rows, a.json)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    show(result)


if __name__ == "__main__":
    main()
