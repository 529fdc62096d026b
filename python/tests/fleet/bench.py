# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a router's decision costs in Python: a report is taken in, replicas are ranked, the request is reserved.

python python/tests/fleet/bench.py
"""

from __future__ import annotations

import time

from tessera.fleet import Load, Report, Router


class Nobody:
    """A replica that is never asked."""


def measure(policy: str, replicas: int, decisions: int = 20_000) -> list[float]:
    router = Router(policy, name="r", replicas=replicas, reservations=1024, silence=1e6)
    router.now = lambda: 1.0  # type: ignore[method-assign]
    for i in range(replicas):
        router.add(f"replica-{i}", Nobody(), 10_000, prefill_budget=8192.0)  # type: ignore[arg-type]
    book, took = router.book, []
    prompt = list(range(1000))
    for n in range(1, decisions + 1):
        i = n % replicas
        mine = Load(2, 90, 0)
        said = Report(n, Load(5, 300, 20), {"r": mine, "other": Load(3, 210, 20)}, free=9000)
        start = time.perf_counter_ns()
        assert router.report(f"replica-{i}", said) == "taken"
        cached = None if router.prefixes is None else router.prefixes.match(prompt)
        to = book.place(n, 1000, 1.0, cached=cached)
        took.append((time.perf_counter_ns() - start) / 1e3)
        if n >= 512:
            for k in range(replicas):
                if book.release(n - 511, k):
                    break
        assert to is not None
    return sorted(took)


if __name__ == "__main__":
    for replicas in (8, 64):
        for policy in ("shortest_queue", "power_of_two", "least_load", "phi_time", "pascal", "prefix_affinity"):
            t = measure(policy, replicas)
            print(
                f"{replicas:3} replicas, {policy:16} p50 {t[len(t) // 2]:6.2f} us, p99 {t[len(t) * 99 // 100]:6.2f} us"
            )
