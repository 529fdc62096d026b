#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the tiny reasoning model of the llama.cpp example and writes it as GGUF.

    prompt      Add a7 k3 c9.
    completion  <think>a:0+7=7 k:7+3=10 c:10+9=19</think>The sum is 19.

The model thinks one step per item, so the prompt decides how long. A token of its own ends the reasoning, and the
answer can be checked. A prompt has 1 to 20 items, each a label (distinct lower-case letters) and a digit.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python train.py --out ../model/tiny_reasoner.gguf        # train; after a break, run it again to resume
    venv/bin/python train.py --evaluate ../model/tiny_reasoner.gguf   # accuracy of a file on unseen prompts
    venv/bin/python train.py --held-out 200 > unseen.tsv              # such prompts: items, prompt, completion
"""

import argparse
import os
import string
import sys
import time
import zlib
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # must be set before jax is imported

import gguf
import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

MAX_ITEMS = 20

# The architecture is llama, as llama.cpp computes it.
LAYERS, WIDTH, HEADS, KV_HEADS, FEED_FORWARD = 3, 128, 4, 2, 352
HEAD_WIDTH = WIDTH // HEADS
RMS_EPSILON, ROPE_BASE, CONTEXT = 1e-5, 10000.0, 512

# The vocabulary is that of a "llama" tokenizer without merges: every byte is a token, except that a space is U+2581.
SPECIAL = ["<unk>", "<s>", "</s>"]
UNK, BOS, EOS = range(3)
FIRST_BYTE, THINK, END_THINK, SPACE = 3, 259, 260, 261
TOKENS = SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)] + ["<think>", "</think>", "\u2581"]
_T = gguf.TokenType
TOKEN_TYPES = [_T.UNKNOWN, _T.CONTROL, _T.CONTROL] + [_T.BYTE] * 256 + [_T.USER_DEFINED] * 2 + [_T.NORMAL]

Params = dict[str, jax.Array]  # by the tensor's name in the GGUF file; matrices are [out, in], as they are there


class Example(NamedTuple):
    items: int
    prompt: str
    completion: str


def is_held_out(prompt: str) -> bool:
    """One prompt in eight is never trained on. A checksum decides: the split needs no list and depends on no seed."""
    return zlib.crc32(prompt.encode()) % 8 == 0


def complete(labels: Iterable[str], digits: Iterable[int]) -> str:
    """The right completion. Steps differ in length, lest the next item be found by distance instead of by label."""
    steps, total = [], 0
    for label, digit in zip(labels, digits):
        steps.append(f"{label}:{total}+{digit}={total + digit}")
        total += digit
    return f"<think>{' '.join(steps)}</think>The sum is {total}."


def make_example(rng: np.random.Generator, items: int, held_out: bool) -> Example:
    """A random example with `items` items, its prompt either held out or for training."""
    while True:
        labels = rng.choice(list(string.ascii_lowercase), size=items, replace=False)
        # Half of the prompts take digits from a narrower range, so that sums near 0 and near 180 get practice too.
        low, high = sorted(rng.integers(0, 10, size=2)) if rng.random() < 0.5 else (0, 9)
        digits = rng.integers(low, high + 1, size=items)
        prompt = "Add " + " ".join(f"{label}{digit}" for label, digit in zip(labels, digits)) + "."
        if is_held_out(prompt) == held_out:
            return Example(items, prompt, complete(labels, digits))


def tokenize(text: str) -> list[int]:
    """The tokens llama.cpp makes of a text, without BOS."""
    for mark, token in (("<think>", THINK), ("</think>", END_THINK)):
        before, found, after = text.partition(mark)
        if found:
            return tokenize(before) + [token] + tokenize(after)
    return [SPACE if byte == ord(" ") else FIRST_BYTE + byte for byte in text.encode()]


def sequence_length(items: int) -> int:
    """Tokens of the longest example with `items` items (all digits are nines): BOS, prompt, completion and EOS."""
    return 1 + (4 + 3 * items) + len(tokenize(complete("a" * items, [9] * items))) + 1


def make_batch(examples: list[Example], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [batch, length], padded on the right, and a mask of those the model must predict: completion and EOS."""
    tokens = np.full((len(examples), length), UNK, np.int32)
    wanted = np.zeros((len(examples), length), bool)
    for row, example in enumerate(examples):
        prompt, completion = [BOS] + tokenize(example.prompt), tokenize(example.completion) + [EOS]
        tokens[row, : len(prompt) + len(completion)] = prompt + completion
        wanted[row, len(prompt) : len(prompt) + len(completion)] = True
    return tokens, wanted


def init_params(seed: int) -> Params:
    rng = np.random.default_rng([seed, 0])

    def matrix(rows: int, columns: int, scale: float = 1.0) -> jax.Array:
        return jnp.asarray(rng.normal(0, scale / np.sqrt(columns), (rows, columns)), jnp.float32)

    params = {"token_embd.weight": matrix(len(TOKENS), WIDTH), "output_norm.weight": jnp.ones(WIDTH)}
    residual = 1 / np.sqrt(2 * LAYERS)  # keeps the variance of the residual stream near one at the start
    for layer in range(LAYERS):
        params |= {
            f"blk.{layer}.attn_norm.weight": jnp.ones(WIDTH),
            f"blk.{layer}.attn_q.weight": matrix(WIDTH, WIDTH),
            f"blk.{layer}.attn_k.weight": matrix(KV_HEADS * HEAD_WIDTH, WIDTH),
            f"blk.{layer}.attn_v.weight": matrix(KV_HEADS * HEAD_WIDTH, WIDTH),
            f"blk.{layer}.attn_output.weight": matrix(WIDTH, WIDTH, residual),
            f"blk.{layer}.ffn_norm.weight": jnp.ones(WIDTH),
            f"blk.{layer}.ffn_gate.weight": matrix(FEED_FORWARD, WIDTH),
            f"blk.{layer}.ffn_up.weight": matrix(FEED_FORWARD, WIDTH),
            f"blk.{layer}.ffn_down.weight": matrix(WIDTH, FEED_FORWARD, residual),
        }
    return params


def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + RMS_EPSILON) * weight


def rope(x: jax.Array) -> jax.Array:
    """Rotates neighbours 2i, 2i+1 of x [batch, length, heads, head width]: llama.cpp's order for this architecture."""
    angle = jnp.arange(x.shape[1])[:, None] * ROPE_BASE ** (-jnp.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
    cos, sin = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


def forward(params: Params, tokens: jax.Array) -> jax.Array:
    """Logits [batch, length, vocabulary] of tokens [batch, length]."""
    batch, length = tokens.shape
    causal = jnp.tril(jnp.ones((length, length), bool))
    x = params["token_embd.weight"][tokens]
    for layer in range(LAYERS):
        w = lambda name: params[f"blk.{layer}.{name}.weight"]
        h = rms_norm(x, w("attn_norm"))
        q = rope((h @ w("attn_q").T).reshape(batch, length, HEADS, HEAD_WIDTH))
        k = rope((h @ w("attn_k").T).reshape(batch, length, KV_HEADS, HEAD_WIDTH))
        v = (h @ w("attn_v").T).reshape(batch, length, KV_HEADS, HEAD_WIDTH)
        q = q.reshape(batch, length, KV_HEADS, HEADS // KV_HEADS, HEAD_WIDTH)  # query heads 0 and 1 share KV head 0
        scores = jnp.einsum("btkgh,bskh->bkgts", q, k) / np.sqrt(HEAD_WIDTH)
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
        x = x + jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(batch, length, WIDTH) @ w("attn_output").T
        h = rms_norm(x, w("ffn_norm"))
        x = x + (jax.nn.silu(h @ w("ffn_gate").T) * (h @ w("ffn_up").T)) @ w("ffn_down").T
    return rms_norm(x, params["output_norm.weight"]) @ params["token_embd.weight"].T  # output = embedding, transposed


def loss_of(params: Params, tokens: jax.Array, wanted: jax.Array) -> jax.Array:
    losses = optax.softmax_cross_entropy_with_integer_labels(forward(params, tokens[:, :-1]), tokens[:, 1:])
    return jnp.sum(losses * wanted[:, 1:]) / jnp.sum(wanted)


@jax.jit
def is_right(params: Params, tokens: jax.Array, wanted: jax.Array) -> jax.Array:
    """For each row: does greedy decoding give the whole completion, that is reasoning, answer and EOS?

    One pass over the expected text settles it. Greedy decoding leaves that text at the first token that is not the arg
    max after the expected tokens before it. So it gives the text if and only if there is no such token.
    """
    best = jnp.argmax(forward(params, tokens[:, :-1]), axis=-1)
    return jnp.all((best == tokens[:, 1:]) | ~wanted[:, 1:], axis=1)


@jax.jit
def decode(params: Params, tokens: jax.Array, wanted: jax.Array) -> jax.Array:
    """Greedy decoding after each row's prompt, up to the length of the row."""
    prompt = jnp.argmax(wanted, axis=1)

    def extend(i: int, text: jax.Array) -> jax.Array:
        best = jnp.argmax(forward(params, text)[:, i - 1], axis=-1)
        return text.at[:, i].set(jnp.where(i < prompt, text[:, i], best))

    return jax.lax.fori_loop(1, tokens.shape[1], extend, tokens)


def answer_of(tokens: np.ndarray) -> list[int]:
    """What follows the first end of reasoning, up to EOS."""
    after = tokens.tolist()[tokens.tolist().index(END_THINK) :] if END_THINK in tokens else []
    return after[: after.index(EOS)] if EOS in after else []


def held_out_examples(seed: int, count: int) -> Iterator[list[Example]]:
    """For each number of items, `count` examples that no training run sees (of one item, there are but 32)."""
    rng = np.random.default_rng([seed, 2])
    for items in range(1, MAX_ITEMS + 1):
        yield [make_example(rng, items, held_out=True) for _ in range(count)]


def evaluate(params: Params, seed: int, count: int) -> None:
    print("items  completion tokens  answer right  whole text right")
    for examples in held_out_examples(seed, count):
        tokens, wanted = make_batch(examples, sequence_length(examples[0].items))
        right = np.concatenate([is_right(params, tokens[i : i + 50], wanted[i : i + 50]) for i in range(0, count, 50)])
        answers = int(np.sum(right))
        if not right.all():  # a slip in the reasoning may leave the answer right: such rows have to be decoded
            decoded = np.asarray(decode(params, tokens[~right], wanted[~right]))
            answers += sum(answer_of(got) == answer_of(want) for got, want in zip(decoded, tokens[~right]))
        mean = np.sum(wanted) / count
        print(f"{examples[0].items:5}  {mean:17.1f}  {answers / count:12.2%}  {np.mean(right):16.2%}", flush=True)


def write_gguf(path: Path, params: Params) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tessera tiny reasoner")
    writer.add_license("Apache-2.0 WITH LLVM-exception")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(RMS_EPSILON)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.0] * len(TOKENS))
    writer.add_token_types(TOKEN_TYPES)
    writer.add_unk_token_id(UNK)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    for name, value in params.items():  # llama.cpp wants vectors in f32
        writer.add_tensor(name, np.asarray(value, np.float16 if value.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def training_batch(seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The batch follows from seed and step alone, so a resumed run sees those of an unbroken one.

    It has one of four shapes, each compiled once, of about the same number of tokens. Long prompts take part from the
    start: short ones alone could be solved by counting positions, which would have to be unlearned.
    """
    rng = np.random.default_rng([seed, 1, step])
    batch_of = {3: 64, 6: 40, 12: 24, MAX_ITEMS: 16}  # by the most items of a prompt in the batch
    most = int(rng.choice(list(batch_of), p=[0.1, 0.2, 0.4, 0.3]))
    lengths = rng.integers(1, most + 1, size=batch_of[most])
    return make_batch([make_example(rng, int(items), held_out=False) for items in lengths], sequence_length(most))


def train(seed: int, steps: int, checkpoint: Path) -> Params:
    rate = optax.warmup_cosine_decay_schedule(0.0, 3e-3, min(100, steps // 10), steps, 3e-5)
    decayed = lambda params: jax.tree.map(lambda value: value.ndim > 1, params)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, b2=0.98, weight_decay=0.05, mask=decayed))
    params = init_params(seed)
    state, first = (params, optimizer.init(params)), 0
    leaves, structure = jax.tree.flatten(state)
    if checkpoint.exists():
        with np.load(checkpoint) as saved:
            if (saved["seed"], saved["steps"]) != (seed, steps):
                sys.exit(f"{checkpoint} is of a run with another --seed or --steps: remove it to start anew")
            first = int(saved["step"])
            state = structure.unflatten([jnp.asarray(saved[str(i)]) for i in range(len(leaves))])

    @jax.jit
    def update(state, tokens: jax.Array, wanted: jax.Array):
        params, moments = state
        loss, gradient = jax.value_and_grad(loss_of)(params, tokens, wanted)
        change, moments = optimizer.update(gradient, moments, params)
        return (optax.apply_updates(params, change), moments), loss

    rng = np.random.default_rng([seed, 3])
    probe = make_batch([make_example(rng, 1 + i % 12, held_out=True) for i in range(96)], sequence_length(12))
    with tqdm(initial=first, total=steps, unit="step", smoothing=0.02, mininterval=1) as bar:
        for step in range(first, steps):
            state, loss = update(state, *training_batch(seed, step))
            bar.update()
            if (step + 1) % 100 == 0 or step + 1 == steps:
                right = float(jnp.mean(is_right(state[0], *probe)))
                bar.set_postfix_str(f"loss {float(loss):.5f}, unseen prompts of 1 to 12 items right {right:.1%}")
                arrays = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
                partial = checkpoint.with_suffix(".partial.npz")
                np.savez(partial, seed=seed, steps=steps, step=step + 1, **arrays)
                partial.replace(checkpoint)  # a break while writing leaves the checkpoint before it
    return state[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("tiny_reasoner.gguf"))
    parser.add_argument("--checkpoint", type=Path, default=Path("tiny_reasoner.npz"))
    parser.add_argument("--unseen", type=int, default=200, help="prompts per number of items in an evaluation")
    parser.add_argument("--evaluate", type=Path, metavar="GGUF", help="evaluate this file, without training")
    parser.add_argument("--held-out", type=int, metavar="N", help="print N held-out examples per number of items")
    options = parser.parse_args()
    if options.held_out:
        for examples in held_out_examples(options.seed, options.held_out):
            print(*("\t".join(map(str, example)) for example in examples), sep="\n")
        return
    if not options.evaluate:
        start = time.monotonic()
        params = train(options.seed, options.steps, options.checkpoint)
        write_gguf(options.out, params)
        print(f"{options.out}: {options.out.stat().st_size} bytes after {time.monotonic() - start:.0f} s")
    # The file is what counts, so it is the file that is read back and evaluated: its matrices are rounded to f16.
    tensors = gguf.GGUFReader(options.evaluate or options.out).tensors
    evaluate({tensor.name: jnp.asarray(tensor.data, jnp.float32) for tensor in tensors}, options.seed, options.unseen)


if __name__ == "__main__":
    main()
