# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a router's decision costs in Python: a report is taken in, replicas are ranked, the request is reserved.

python python/tests/fleet/bench.py
"""

from __future__ import annotations

import time

from tessera.fleet import Event, Load, Report, Router


class Nobody:
    """A replica that is never asked."""


def measure(policy: str, replicas: int, decisions: int = 20_000) -> list[float]:
    router = Router(policy, name="r", replicas=replicas, reservations=1024, silence=1e6)
    router.now = lambda: 1.0  # type: ignore[method-assign]
    for i in range(replicas):
        router.add(f"replica-{i}", Nobody(), 10_000, prefill_budget=8192.0)  # type: ignore[arg-type]
    prompt = list(range(1000))
    took, placed = [], []
    for n in range(1, decisions + 1):
        name = f"replica-{n % replicas}"
        said = Report(1 + n // replicas, Load(5, 300, 20), {"r": Load(2, 90, 0), "other": Load(3, 210, 20)}, free=9000)
        session = router.stream(prompt, 10)
        start = time.perf_counter_ns()
        assert router.report(name, said) == "taken"
        entry = router._choose(session, prompt, set())
        took.append((time.perf_counter_ns() - start) / 1e3)
        assert entry is not None
        placed.append((session, entry))
        if n > 512:
            session, entry = placed[-512]
            router.book.handle(Event("ended", 1.0, request=session._request))
    return sorted(took)


if __name__ == "__main__":
    for replicas in (8, 64):
        for policy in ("shortest_queue", "power_of_two", "least_load", "phi_time", "pascal", "prefix_affinity"):
            t = measure(policy, replicas)
            print(
                f"{replicas:3} replicas, {policy:16} p50 {t[len(t) // 2]:6.2f} us, p99 {t[len(t) * 99 // 100]:6.2f} us"
            )
