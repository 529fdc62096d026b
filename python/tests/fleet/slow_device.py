# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A made-up device for plans in tests: stages by length pay there at any rate at which a busy machine serves."""

from __future__ import annotations

from typing import Any

from tessera import sim


def profile(parameters: float, bandwidth: float) -> dict[str, Any]:
    """A device with this part of a real one's bandwidth, and a model of so many parameters. KV takes most of the time
    of its steps, and the longest request of a batch holds up the others (CascadeInfer's kernel). So stages pay at any
    rate from about one request a second on."""
    slow: dict[str, Any] = sim.profile("h20-llama-3.2-3b")
    slow["name"] = "a made-up device"
    slow["model"]["parameters"] = parameters
    slow["gpu"]["bytes_per_s"] *= bandwidth
    slow["gpu"]["launch_seconds"] = 1e-3
    return slow
