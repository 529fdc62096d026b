#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# rank: train, eval and score on made-up prompts; models and errors.
set -euo pipefail
[[ -n ${TESSERA_RANK:-} ]] || exit 77

fail() { echo "rank.sh: $*" >&2; exit 1; }
# refused TEXT ARGS...: exit code 2, one line on stderr that contains TEXT.
refused() {
  local text=$1 code=0
  shift
  "$TESSERA_RANK" "$@" >refused.out 2>refused.err || code=$?
  [[ $code == 2 ]] || fail "rank $* exited with $code, not 2"
  [[ $(wc -l <refused.err) == 1 ]] || fail "rank $* did not say one line: $(cat refused.err)"
  grep -qF -- "$text" refused.err || fail "rank $* did not say '$text' but: $(cat refused.err)"
}
number() { sed -n "s/^ *\"$2\": \([-0-9.e]*\),\{0,1\}$/\1/p" "$1" | head -n 1; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 >= b + 0) }' || fail "$3: $1 is below $2"; }

# An essay is long, a word is short, code adds to either, and some of the length is chance.
prompts() {
  awk -v seed="$1" -v n="$2" 'BEGIN {
    srand(seed)
    split("the cat sat under our old table today while rain fell", w, " ")
    for (i = 0; i < n; ++i) {
      essay = rand() < 0.5; code = rand() < 0.5
      text = essay ? "Write an essay:" : "Give one word:"
      for (k = 0; k < 6; ++k) text = text " " w[1 + int(rand() * 11)]
      if (code) text = text ". With code."
      printf "{\"id\": \"p%d\", \"prompt\": \"%s\\n\\u00e4\", \"output_tokens\": %d}\n", i, text, 10 + 200 * essay + 60 * code + rand() * 40
    }
  }'
}
prompts 1 400 >train.jsonl
prompts 2 200 >fresh.jsonl

# Training writes a model that orders fresh prompts; the same arguments write the same file.
"$TESSERA_RANK" train --data train.jsonl --model a.rank --json train.json >train.out
"$TESSERA_RANK" train --data train.jsonl --model b.rank >/dev/null
cmp a.rank b.rank || fail "training does not repeat itself"
grep -q '"refit": true' train.json || fail "no learning curve"
"$TESSERA_RANK" eval --data fresh.jsonl --model a.rank --json eval.json >eval.out
at_least "$(number eval.json tau_b)" 0.7 "tau-b on fresh prompts"
grep -q '95 % interval' eval.out || fail "no interval"

# Other losses, a hidden layer, cross-validation.
for loss in pointwise listwise; do
  "$TESSERA_RANK" train --data train.jsonl --model "$loss.rank" --loss $loss >/dev/null
  "$TESSERA_RANK" eval --data fresh.jsonl --model "$loss.rank" --json eval.json >/dev/null
  at_least "$(number eval.json tau_b)" 0.65 "tau-b with the $loss loss"
done
"$TESSERA_RANK" train --data train.jsonl --model mlp.rank --hidden 4 --bits 12 >/dev/null
"$TESSERA_RANK" eval --data fresh.jsonl --model mlp.rank --json eval.json >/dev/null
at_least "$(number eval.json tau_b)" 0.65 "tau-b with a hidden layer"
"$TESSERA_RANK" eval --data train.jsonl --folds 4 --json folds.json >folds.out
at_least "$(number folds.json tau_b)" 0.65 "tau-b over folds"
[[ $(grep -c '^  fold ' folds.out) == 4 ]] || fail "not four folds"

# Intervals over any number of folds are Student's; what programs read is alone on standard output.
"$TESSERA_RANK" eval --data train.jsonl --folds 12 --bits 10 --json - >folds.json 2>folds.out
grep -q '95 % interval' folds.out || fail "no interval beside JSON"
python3 - <<'P'
import json, math, statistics
j = json.load(open("folds.json"))
half = 2.20099 * statistics.stdev(j["folds"]) / math.sqrt(12)  # of 11 degrees of freedom
low, high = j["interval_95"]
assert abs(high - low - 2 * half) < 1e-5, (low, high, half)
P
"$TESSERA_RANK" train --data train.jsonl --model dash.rank --json - 2>/dev/null | python3 -c 'import json, sys; json.load(sys.stdin)' ||
  fail "train --json - has more than JSON"

# Scores: a line for each line, members kept, an essay above a word.
printf '%s\n' '{"prompt": "Give one word: cat", "more": [1, 2]}' '{"prompt": "Write an essay: cat. With code."}' >new.jsonl
"$TESSERA_RANK" score --data new.jsonl --model a.rank >scores.jsonl
[[ $(wc -l <scores.jsonl) == 2 ]] || fail "not two scores"
grep -q '"more":\[1,2\]' scores.jsonl || fail "a member was lost"
short=$(sed -n '1s/.*"score":\([-0-9.e]*\)}$/\1/p' scores.jsonl)
long=$(sed -n '2s/.*"score":\([-0-9.e]*\)}$/\1/p' scores.jsonl)
awk -v a="$short" -v b="$long" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }' || fail "score $short is not below $long"
"$TESSERA_RANK" score --data new.jsonl --model a.rank --output file.jsonl >score.out
[[ ! -s score.out ]] || fail "score --output wrote to the standard output as well"
cmp scores.jsonl file.jsonl || fail "--output differs from the standard output"

# Embeddings: here two floats per prompt, 0 (00000000) and 1.0 (0000803f), alone and beside the text.
head -n 40 train.jsonl >few.jsonl
while read -r line; do
  if [[ $line == *essay* ]]; then printf '\0\0\x80\x3f\0\0\0\0'; else printf '\0\0\0\0\0\0\x80\x3f'; fi
done <few.jsonl >few.f32
"$TESSERA_RANK" train --data few.jsonl --model dense.rank --embeddings few.f32 --dimension 2 --only-embeddings >/dev/null
"$TESSERA_RANK" eval --data few.jsonl --model dense.rank --embeddings few.f32 --dimension 2 --only-embeddings --json eval.json >/dev/null
at_least "$(number eval.json tau_b)" 0.5 "tau-b of embeddings alone"
"$TESSERA_RANK" train --data few.jsonl --model joined.rank --embeddings few.f32 --dimension 2 --bits 12 >/dev/null
"$TESSERA_RANK" score --data few.jsonl --model joined.rank --embeddings few.f32 --dimension 2 >joined.jsonl
[[ $(grep -c '"score":-\{0,1\}[0-9]' joined.jsonl) == 40 ]] || fail "not forty scores"

# What can be mended is said in a line.
refused 'subcommand'
refused '--model'                          train --data train.jsonl
refused 'no.jsonl'                         train --data no.jsonl --model x.rank
refused 'trained on other features'        eval --data few.jsonl --model a.rank --embeddings few.f32 --dimension 2
refused '320 bytes'                        train --data train.jsonl --model x.rank --embeddings few.f32 --dimension 2
refused 'go together'                      train --data few.jsonl --model x.rank --embeddings few.f32
refused '--folds'                          eval --data few.jsonl
refused '--folds'                          eval --data few.jsonl --folds 30
head -c 1000 a.rank >short.rank
refused 'truncated'                        score --data new.jsonl --model short.rank
{ head -c 5000 a.rank; printf 'x'; tail -c +5002 a.rank; } >damaged.rank
refused 'damaged'                          score --data new.jsonl --model damaged.rank
refused 'not a model file'                 score --data new.jsonl --model new.jsonl
printf '%s\n' '{"prompt": "a", "output_tokens": 3}' '{"prompt": "b"' >bad.jsonl
refused 'bad.jsonl:2:'                     train --data bad.jsonl --model x.rank
printf '%s\n' '{"prompt": "a", "output_tokens": -3}' >bad.jsonl
refused "'-3'"                             train --data bad.jsonl --model x.rank
printf '%s\n' '{"prompt": 5, "output_tokens": 3}' >bad.jsonl
refused 'a text as "prompt"'               train --data bad.jsonl --model x.rank
: >bad.jsonl
refused 'at least one prompt'              train --data bad.jsonl --model x.rank
for option in --delta --margin; do refused 'is a number' train --data train.jsonl --model x.rank $option nan; done
for i in $(seq 30); do echo '{"prompt": "the same", "output_tokens": 5}'; done > alike.jsonl
refused 'no order can be learned'          train --data alike.jsonl --model x.rank
refused '--data reads'                     train --data train.jsonl --model ./train.jsonl
refused '--model reads'                    score --data new.jsonl --model a.rank --output a.rank
[[ ! -e x.rank ]] || fail "a refused training left a model"

refused 'begins with a 0'                  train --data train.jsonl --model x.rank --bits 012
refused '--hidden requires --folds'        eval --data fresh.jsonl --model a.rank --hidden 4
refused '--plot-format requires --plot'    train --data train.jsonl --model x.rank --plot-format png
printf '%s\n' '{"prompt": "a", "output_tokens": 3}' '{"prompt": "b", "output_tokens": 1e400}' >bad.jsonl
refused 'bad.jsonl:2:38: expected a number that a double can hold' train --data bad.jsonl --model x.rank
python3 -c 'print("{\"prompt\": \"a\", \"more\": " + "[" * 100000 + "]" * 100000 + "}")' >bad.jsonl
refused 'at most 512 deep'                 score --data bad.jsonl --model a.rank
refused '.: expected'                      score --data . --model a.rank
# Weights with a sum that is no number, in a file that is whole.
python3 - <<'P'
import struct
data = bytearray(open("a.rank", "rb").read())
huge = [3e38, -3e38]
for k in range((len(data) - 64) // 4): struct.pack_into("<f", data, 64 + 4 * k, huge[k % 2])
def crc(bytes, state):
    for b in bytes: state = table[(state ^ b) & 255] ^ (state >> 8)
    return state
table = []
for i in range(256):
    for _ in range(8): i = (i >> 1) ^ (0xC96C5795D7870F42 if i & 1 else 0)
    table.append(i)
struct.pack_into("<Q", data, 56, ~crc(data[64:], crc(data[:56], 2**64 - 1)) & (2**64 - 1))
open("huge.rank", "wb").write(data)
P
refused 'a model with scores that are numbers' score --data new.jsonl --model huge.rank
refused 'a model with scores that are numbers' eval --data fresh.jsonl --model huge.rank
if [[ -e /dev/full ]]; then
  code=0
  "$TESSERA_RANK" score --data new.jsonl --model a.rank >/dev/full 2>refused.err || code=$?
  [[ $code == 2 && $(wc -l <refused.err) == 1 ]] || fail "scores are lost: exit code $code"
fi
"$TESSERA_RANK" score --help | grep -q -- --trace || fail "no help of a command"

if command -v gnuplot >/dev/null; then
  "$TESSERA_RANK" train --data train.jsonl --model a.rank --plot plots >/dev/null
  [[ -s plots/learning_curve.svg && -s plots/learning_curve.gp ]] || fail "no picture"
fi
echo "rank.sh: ok"
