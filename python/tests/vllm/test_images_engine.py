# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The real engine with models that see images, token for token: under vLLM's own scheduler and under ours."""

from __future__ import annotations

import os
from dataclasses import replace

import images
import pytest
from engine import Result, Setting, run_apart
from test_engine import compare

pytestmark = pytest.mark.skipif(
    not os.environ.get("TESSERA_VLLM_ENGINE"), reason="the real engine takes minutes: set TESSERA_VLLM_ENGINE"
)

#: The encoder's cache is as large as a step: two or three images of LLaVA's, one large one of LLaVA-NeXT's.
llava = Setting(model="llava", images=12, prompts=140, blocks=40, seqs=16, budget=128, max_prompt=60, max_output=50)
settings = {
    "llava": llava,
    "llava, cache, chunks": replace(llava, caching=True, shared=40, chunk=40, blocks=50),
    "llava, whole images": replace(llava, own={"disable_chunked_mm_input": True}),
    "llava_next": replace(llava, model="llava_next", budget=256, blocks=50),
    "gemma3": replace(llava, model="gemma3", blocks=50),
    "gemma3, cache": replace(llava, model="gemma3", caching=True, shared=40, blocks=60),
}


def same(a: Result, b: Result) -> int:
    return sum(a.outputs[i] == b.outputs[i] for i in a.outputs)


def theirs(setting: Setting) -> Result:
    """vLLM's own run. With prefix caching it has all the memory that it wants: vLLM does not send its runner the images
    that a cached prefix covers. A request that is preempted, and then starts without that prefix, stops the engine."""
    return run_apart(replace(setting, blocks=2048) if setting.caching else setting, ours=False)


@pytest.mark.parametrize("name", settings)
def test_what_is_compared_is_certain(name: str) -> None:
    """vLLM's own scheduler gives the same in batches of another size: no token hangs on the order of sums."""
    setting = settings[name]
    tight = theirs(setting)
    roomy = run_apart(replace(setting, blocks=2048, seqs=32, budget=512, chunk=0, caching=False, own={}), ours=False)
    assert len(tight.outputs) == len(roomy.outputs) == setting.prompts
    print(
        f"\n{name}: {same(tight, roomy)} of {setting.prompts} equal; steps {tight.steps}, {roomy.steps}; "
        f"images encoded {tight.encoded}, {roomy.encoded}; preempted {tight.preempted}, {roomy.preempted}"
    )
    assert same(tight, roomy) == setting.prompts
    assert tight.encoded > roomy.encoded


def test_images_matter() -> None:
    several, one = (run_apart(replace(llava, images=n, blocks=2048), ours=False) for n in (llava.images, 1))
    assert same(several, one) < 0.2 * llava.prompts


@pytest.mark.parametrize("name", settings)
def test_same_tokens(name: str) -> None:
    if not images.is_supported():
        pytest.skip(images.reason)
    setting = settings[name]
    own, ours = theirs(setting), run_apart(setting, ours=True)
    compare(name, setting, own, ours)
    print(f"images encoded {own.encoded}, {ours.encoded}")
    assert setting.caching or ours.encoded < 1.2 * own.encoded
