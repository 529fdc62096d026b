# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens per CPU second of vLLM's whole engine on a CPU, under its own scheduler and under ours.

The model is tiny, so that the scheduler counts. 256 requests run all the time, and others come as they end. The time is
that of the process, with all its threads, while they run. Each run has a process of its own, in turn.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time

running = 256


def measure(ours: bool, caching: bool) -> float:
    """Tokens per CPU second."""
    import engine
    from vllm import SamplingParams

    setting = engine.Setting(seqs=running, budget=4096, blocks=8192, caching=caching)
    made = engine.engine(setting, ours)
    rng = random.Random(1)
    added = 0

    def add() -> None:
        nonlocal added
        prompt = {"prompt_token_ids": [rng.randrange(3, 900) for _ in range(128)]}
        made.add_request(
            str(added), prompt, SamplingParams(temperature=0, max_tokens=rng.randrange(1, 256), ignore_eos=True)
        )
        added += 1

    for _ in range(2 * running):
        add()
    tokens, begin = 0, 0.0
    for step in range(350):
        if step == 100:
            tokens, begin = 0, time.process_time()
        for output in made.step():
            tokens += 1
            if output.finished:
                add()
    return tokens / (time.process_time() - begin)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("SCHEDULER", "CACHING"))
    chosen = parser.parse_args()
    if chosen.one:
        print("measured", measure(chosen.one[0] == "tessera", chosen.one[1] == "1"))
        sys.exit()
    for caching in "01":
        rates: dict[str, list[float]] = {"vllm": [], "tessera": []}
        for _ in range(chosen.times):
            for name, of in rates.items():
                words = [sys.executable, __file__, "--one", name, caching]
                said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
                of.append(float(said.rsplit("measured", 1)[1]))
        own, ours = (statistics.median(of) for of in rates.values())
        print(f"caching {caching}: vLLM {own:.0f}, tessera {ours:.0f} tokens per CPU second: {ours / own:.2f} times")
