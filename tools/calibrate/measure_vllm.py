#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""measure_vllm.py MODEL > steps.csv

Measures the 14 steps of `calibrate` on a vLLM (V1) in this process. These are whole steps of the engine, the host's
part included, on the host's clock; medians. A step that does not fit in its KV cache is replaced by the nearest that
fits. Prompts are random tokens without prefix caching. Options after MODEL are vLLM's own, as KEY=VALUE, for instance
max_num_batched_tokens=8192 tensor_parallel_size=2 quantization=fp8.

A second file, of requests on a server, is for `calibrate --check`: docs/profiles.md.
"""
import os
import random
import statistics
import sys
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # steps are taken here, one at a time

STEPS = 20  # timed of each kind


class Engine:
    def __init__(self, model, options):
        from vllm import LLM
        self.llm = LLM(model=model, enable_prefix_caching=False, async_scheduling=False, **options)
        self.engine = self.llm.llm_engine
        config = self.engine.vllm_config
        self.budget = config.scheduler_config.max_num_batched_tokens
        self.rows = config.scheduler_config.max_num_seqs
        self.longest = config.model_config.max_model_len
        self.kv = config.cache_config.num_gpu_blocks * config.cache_config.block_size
        self.vocabulary = config.model_config.get_vocab_size()
        self.random = random.Random(1)
        self.number = 0

    def add(self, prompt, output):
        from vllm import SamplingParams
        tokens = [self.random.randrange(10, self.vocabulary) for _ in range(prompt)]
        self.number += 1
        name = str(self.number)
        self.engine.add_request(name, {"prompt_token_ids": tokens},
                                SamplingParams(max_tokens=output, ignore_eos=True, temperature=0, detokenize=False))
        return name

    def step(self):
        before = time.perf_counter()
        out = self.engine.step()
        return time.perf_counter() - before, out

    def drain(self, names):
        self.engine.abort_request(names)
        while self.engine.has_unfinished_requests():
            self.step()

    def start(self, decodes, context, output):
        """Starts `decodes` requests, all decoding."""
        names = [self.add(max(context - STEPS // 2, 1), output) for _ in range(decodes)]
        begun = set()
        while len(begun) < decodes:
            begun.update(o.request_id.split("-")[0] for o in self.step()[1] if o.outputs and o.outputs[0].token_ids)
        return names

    def decode(self, decodes, context):
        names = self.start(decodes, context, 4 * STEPS + decodes)
        seconds = statistics.median(self.step()[0] for _ in range(STEPS))
        self.drain(names)
        return f"decode,0,0,{decodes},{context},{seconds:.9g}"

    def prefill(self, tokens):
        seconds = []
        for _ in range(STEPS // 2):
            self.add(tokens, 1)
            seconds.append(self.step()[0])
            self.drain([])
        return f"prefill,{tokens},0,0,0,{statistics.median(seconds):.9g}"

    def mixed(self, decodes, context, tokens, history):
        # Chunks before the last fill the budget, so a history consists of full ones.
        chunk = self.budget - decodes
        tokens = min(tokens, chunk)
        chunks = max(round(history / chunk), 1) if history else 0
        while chunks and chunks * chunk + tokens >= self.longest:
            chunks -= 1
        history = chunks * chunk
        names = self.start(decodes, context, (chunks + 2) * STEPS + decodes)
        seconds = []
        for _ in range(STEPS // 2):
            self.add(history + tokens, 1)
            for _ in range(chunks):
                self.step()
            seconds.append(self.step()[0])
        self.drain(names)
        return f"mixed,{tokens},{history},{decodes},{context},{statistics.median(seconds):.9g}"

    def fitting(self, decodes, context):
        """The number of requests with room, also for the tokens that they generate while they are timed."""
        context = min(context, self.longest - 6 * STEPS)
        return max(min(decodes, self.rows - 1, self.kv * 9 // 10 // (context + 6 * STEPS)), 1), context


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)

    def value(text):
        return int(text) if text.lstrip("-").isdigit() else {"true": True, "false": False}.get(text.lower(), text)
    out, sys.stdout = sys.stdout, sys.stderr  # vLLM may print
    e = Engine(sys.argv[1], {k: value(v) for k, v in (a.split("=", 1) for a in sys.argv[2:])})
    rows = []
    for _ in range(2):  # once to warm up
        rows = []
        for context in (128, 4096):
            batches = {e.fitting(b, context) for b in (1, 32, e.rows - 1)}
            rows += [e.decode(*b) for b in sorted(batches)]
        lengths = {min(n, e.budget, e.longest - 1) for n in (64, 256, 1024, e.budget)}
        rows += [e.prefill(n) for n in sorted(lengths)]
        for decodes, context, tokens, history in ((32, 1024, 512, 0), (128, 1024, 512, 0), (32, 1024, 512, 4096),
                                                  (8, 4096, 1024, 0)):
            rows.append(e.mixed(*e.fitting(decodes, context), tokens, history))
    print("kind,prefill_tokens,prefill_history,decodes,decode_context,seconds", *rows, sep="\n", file=out)


if __name__ == "__main__":
    main()
