#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The programs of the llama.cpp example from outside: what they print, and what they refuse with exit code 2.
set -euo pipefail

fail() {
  echo "FAILED: $1" >&2
  exit 1
}
refuses() { # words that standard error must have; the rest: the command
  local words=$1 code=0
  shift
  "$@" >out 2>err </dev/null || code=$?
  [ "$code" -eq 2 ] || fail "exit code $code, not 2: $*"
  grep -qF -- "$words" err || fail "'$words' is not in: $(cat err)"
}
llama() { "$TESSERA_LLAMA_CPP" "$@"; }

# Prompts from standard input, some of which are no prompts.
printf 'one\n\nt\xc3wo\nthree\n%s\n' "$(printf 'x%.0s' $(seq 5000))" |
  llama --random-model --max-output 20 --reasoning-budget 5 --tpot 0.001 --json numbers.json >out 2>err
grep -qx 'stdin:2: refused: the prompt is empty' err || fail "the empty line: $(cat err)"
grep -qx 'stdin:3: refused: the prompt is not UTF-8' err || fail "the broken line: $(cat err)"
grep -q '^stdin:5: refused: the prompt is too long' err || fail "the long line: $(cat err)"
[ "$(wc -l <err)" -eq 3 ] || fail "more was refused: $(cat err)"
grep -q '"completed": 2' numbers.json || fail "two were to be served: $(cat numbers.json)"
grep -qE '^ +1 +4 +5 +15 .* finished$' out || fail "request 1: $(cat out)"
grep -qE '^ +4 +6 +5 +15 .* finished$' out || fail "request 4: $(cat out)"

# Load under every policy, and the same load and a measured profile in the simulator.
shape=(--kv-blocks 160 --slots 8 --batch-tokens 128)
llama --random-model --load 12 --rate 50 --write-trace load.csv --quiet --time-scale 100 --processor-time \
  --policy fcfs,round_robin,pascal "${shape[@]}" --json load.json >out
for policy in fcfs round_robin pascal; do grep -qE "^$policy +[0-9.]+\*? " out || fail "$policy: $(cat out)"; done
[ "$(grep -c '"completed": 12' load.json)" -eq 3 ] || fail "all were to be served: $(cat load.json)"
llama --random-model --measure tiny.json --measure-steps steps.csv --time-scale 100 --processor-time "${shape[@]}"
for kind in decode prefill mixed; do grep -q "^$kind," steps.csv || fail "steps: $(cat steps.csv)"; done
if [ -n "${TESSERA_CALIBRATE:-}" ]; then
  "$TESSERA_CALIBRATE" steps.csv --profile ./tiny.json --fit none >out || fail "the steps cannot be read"
fi
if [ -n "${TESSERA_REPLAY:-}" ]; then
  "$TESSERA_REPLAY" --trace load.csv --profile tiny.json --instances 1 --kv-blocks 160 --max-batch 8 --token-budget 128 --json replayed.json >out
  grep -qE '^pascal +[a-z-]+ +[0-9.]+' out || fail "the simulator: $(cat out)"
  [ "$(grep -c '"completed": 12' replayed.json)" -ge 2 ] || fail "all were to be served: $(cat replayed.json)"
fi

# Drafts from a request's own text: the same text, in fewer steps.
echo 'one and two and one and two and one' >repeating.txt
for draft in 0 4; do
  llama --random-model --prompts repeating.txt --max-output 80 --reasoning-budget 5 --tpot 0.001 --kv slots \
    --context 128 --slots 2 --draft $draft >drafted.$draft
done
said() { sed '/^ *id  *prompt/,$d' "$1"; }
steps_of() { grep -a -oE '^pascal: [0-9]+ steps' "$1" | grep -oE '[0-9]+'; }
[ -n "$(said drafted.0 | tr -d '\0')" ] || fail "nothing was said: $(cat -v drafted.0)"
cmp <(said drafted.0) <(said drafted.4) || fail "drafts change the text"
grep -aqE '^pascal: [1-9][0-9]* of [0-9]+ drafts accepted' drafted.4 || fail "drafts: $(cat -v drafted.4)"
[ "$(steps_of drafted.4)" -lt "$(steps_of drafted.0)" ] || fail "no step was saved: $(cat -v drafted.4)"

# A short soak with two contexts.
llama --random-model --soak 3 --policy pascal --instances 2 --slots 8 --kv-blocks 48 --tpot 0.002 --quantum 32 >out
grep -q 'nothing was lost' out || fail "soak: $(cat out)"

# Several answers to a prompt: each as if it were alone, with the same seed.
printf 'one and two\nthree\n' >two.txt
for samples in 1 3; do
  llama --random-model --prompts two.txt --max-output 30 --reasoning-budget 5 --tpot 0.001 --samples $samples \
    --temperature 0.7 >sampled.$samples
done
[ "$(grep -acE 'finished$' sampled.1)" -eq 2 ] || fail "one each: $(cat -v sampled.1)"
[ "$(grep -acE 'finished$' sampled.3)" -eq 6 ] || fail "three each: $(cat -v sampled.3)"
grep -aq '4 of the samples began with a prompt that was there' sampled.3 || fail "forks: $(cat -v sampled.3)"

# Layers that differ.
for layers in windows recurrent; do
  llama --random-model --layers $layers --prompts two.txt --max-output 100 --reasoning-budget 5 --tpot 0.001 >out
  [ "$(grep -acE ' 5 +[0-9]+ .* finished$' out)" -eq 2 ] || fail "$layers: $(cat -v out)"
done

# Embeddings: rows of the model's width, the same each time, and other ones for other prompts.
llama --random-model --save-model random.gguf --prompts /dev/null --quiet >out
printf '{"prompt": "one"}\n{"prompt": "another one"}\n{"prompt": "one", "output_tokens": 3}\n' >prompts.jsonl
"$TESSERA_LLAMA_EMBED" --model random.gguf --input prompts.jsonl --output a.f32 >out
grep -qx '3 rows of 64 numbers' out || fail "embed: $(cat out)"
"$TESSERA_LLAMA_EMBED" --model random.gguf --input prompts.jsonl --output b.f32 >out
[ "$(wc -c <a.f32)" -eq $((3 * 64 * 4)) ] || fail "the file has $(wc -c <a.f32) bytes"
cmp a.f32 b.f32 || fail "two runs differ"
row() { tail -c +$(($1 * 256 + 1)) a.f32 | head -c 256; }
cmp <(row 0) <(row 2) || fail "one prompt, two embeddings"
if cmp -s <(row 0) <(row 1); then fail "two prompts, one embedding"; fi

refuses 'no-such.gguf' llama --model no-such.gguf
printf 'not a model' >bad.gguf
refuses 'a GGUF model' llama --model bad.gguf
refuses 'one of --model PATH and --random-model' llama
refuses "unknown policy 'best'" llama --random-model --policy best
refuses '--draft must be from 0' llama --random-model --draft 65
refuses 'which cannot go back' llama --random-model --layers recurrent --draft 4
refuses '--samples must be from 1' llama --random-model --samples 0
refuses '--temperature must be from 0' llama --random-model --temperature -1
refuses '--slots must be from 1' llama --random-model --slots 0
refuses '--kv-blocks must be from 1' llama --random-model --kv-blocks 0
refuses '--end-of-reasoning' llama --random-model --end-of-reasoning 'no such token'
refuses 'exclude each other' llama --random-model --load 3 --trace load.csv
refuses 'no-such.txt' llama --random-model --prompts no-such.txt
refuses 'prompts.jsonl' "$TESSERA_LLAMA_EMBED" --model random.gguf --input no-such/prompts.jsonl --output c.f32
printf '{"prompt": 3}\n' >bad.jsonl
refuses 'bad.jsonl:1:1' "$TESSERA_LLAMA_EMBED" --model random.gguf --input bad.jsonl --output c.f32
refuses 'at most 2 tokens' "$TESSERA_LLAMA_EMBED" --model random.gguf --input prompts.jsonl --output c.f32 --context 2
[ ! -e c.f32 ] || fail "a refused run left a file"
