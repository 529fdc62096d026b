# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much load can each policy serve well? Requests a second that were good, over requests a second that came."""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tessera import sim

requests, picture = (int(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else (2000, "goodput.svg")
rates = [0.5, 1, 1.5, 2, 2.5, 3]
loads = {rate: sim.generate("reasoning-chat", requests, rate=rate) for rate in rates}
goodput: dict[str, list[float]] = {}
for rate, policy, run in sim.sweep(["fcfs", "pascal", "due-first"], loads, workers=2, instances=4):
    goodput.setdefault(policy, []).append(run.goodput(ttft=10.0, tpot=0.1))
    p99 = run.summary["ttft"]["p99"]
    print(f"{policy:10} {rate:4} requests/s: {goodput[policy][-1]:.2f} good ones, P99 TTFT {p99:.1f} s")
for policy, good in goodput.items():
    plt.plot(rates, good, marker="o", label=policy)
plt.xlabel("requests per second")
plt.ylabel("good requests per second")
plt.legend()
plt.savefig(picture)
