#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# From prompts to a schedule: rank train, rank score --trace, replay --policy pars. On made-up prompts, and on real ones
# where they lie beside the sources.
set -euo pipefail
[[ -n ${TESSERA_RANK:-} && -n ${TESSERA_REPLAY:-} ]] || exit 77
rm -rf ./*

fail() { echo "pars.sh: $*" >&2; exit 1; }
# refused TEXT TOOL ARGS...: exit code 2, one line on stderr that contains TEXT.
refused() {
  local text=$1 code=0
  shift
  "$@" >refused.out 2>refused.err || code=$?
  [[ $code == 2 ]] || fail "$* exited with $code, not 2"
  [[ $(wc -l <refused.err) == 1 ]] || fail "$* did not say one line: $(cat refused.err)"
  grep -qF -- "$text" refused.err || fail "$* did not say '$text' but: $(cat refused.err)"
}
# of POLICY: its mean latency per token, from numbers.json.
of() {
  awk -v policy="\"$1\"" '/"policy":/ { here = index($0, policy) } here && /"normalized_latency"/ { found = 1 }
    here && found && /"mean":/ { gsub(/[",]/, ""); print $2; exit }' numbers.json
}
below() { awk -v a="$1" -v b="$2" -v f="$3" 'BEGIN { exit !(a != "" && b != "" && a + 0 <= f * b) }' || fail "$4: $1 is not below $3 x $2"; }

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
      printf "{\"prompt\": \"%s\", \"prompt_tokens\": %d, \"output_tokens\": %d}\n", text, 10 + 3 * code, 2 + 300 * essay + 60 * code + rand() * 40
    }
  }'
}
prompts 1 400 >train.jsonl
prompts 2 600 >fresh.jsonl
server=(--instances 1 --profile h200-llama-3.1-8b --max-batch 16)

# What a user does.
"$TESSERA_RANK" train --data train.jsonl --model lengths.rank >/dev/null
"$TESSERA_RANK" score --data fresh.jsonl --model lengths.rank --output scored.jsonl --trace scored.csv
"$TESSERA_REPLAY" --trace scored.csv --rate 400 --policy fcfs,pars,sjf "${server[@]}" --json numbers.json >table.txt

[[ $(head -n 1 scored.csv) == arrival_s,prompt_tokens,output_tokens,reasoning_tokens,answer_tokens,score ]] || fail "the header"
[[ $(wc -l <scored.csv) == 601 ]] || fail "not a row for every prompt"
[[ $(wc -l <scored.jsonl) == 600 ]] || fail "not a line for every prompt"
# The two files say the same.
sed -n 's/.*"output_tokens":\([0-9]*\),"score":\([-0-9.e]*\)}$/\1 \2/p' scored.jsonl >a.txt
tail -n +2 scored.csv | awk -F, '{ print $3, $6 }' >b.txt
paste -d ' ' a.txt b.txt | awk '{ d = $2 - $4; if ($1 != $3 || d * d > 1e-10) exit 1; ++n } END { exit n != 600 }' || fail "trace and lines differ"
# A queue forms. To know which request is short pays nearly as much as to know the future.
below "$(of pars)" "$(of fcfs)" 0.5 "pars against fcfs"
below "$(of sjf)" "$(of pars)" 1 "the oracle against pars"
below "$(of pars)" "$(of sjf)" 1.5 "pars against the oracle"

# Without scores pars is refused, and not first come, first served under another name: alone it is an error, beside
# others a remark.
cut -d, -f1-5 scored.csv >plain.csv
refused '600 of 600 in plain.csv have none' "$TESSERA_REPLAY" --trace plain.csv --rate 400 --policy pars "${server[@]}"
"$TESSERA_REPLAY" --trace plain.csv --rate 400 --policy fcfs,pars "${server[@]}" >table.txt || fail "fcfs can run"
grep -q '^fcfs ' table.txt || fail "fcfs ran: $(cat table.txt)"
if grep -q '^pars ' table.txt; then fail "pars has no scores: $(cat table.txt)"; fi
grep -q '600 of 600 in plain.csv have none' table.txt || fail "why pars did not run: $(cat table.txt)"
sed '3s/,[^,]*$/,/' scored.csv >gap.csv
refused '1 of 600 in gap.csv have none' "$TESSERA_REPLAY" --trace gap.csv --rate 400 --policy pars "${server[@]}"
refused 'azure-conv' "$TESSERA_REPLAY" --workload azure-conv --requests 10 --policy pars
"$TESSERA_REPLAY" --trace plain.csv --rate 400 --policy fcfs,sjf "${server[@]}" >/dev/null || fail "the oracle needs no scores"

# A trace has the lines' own arrivals and reasoning, and refuses what is no trace.
score() { "$TESSERA_RANK" score --data "$1" --model lengths.rank --output /dev/null --trace out.csv; }
printf '%s\n' '{"prompt": "a", "prompt_tokens": 3, "output_tokens": 9, "reasoning_tokens": 4, "arrival_s": 0.5}' \
  '{"prompt": "a", "prompt_tokens": 4, "output_tokens": 8, "arrival_s": 2}' >timed.jsonl
"$TESSERA_RANK" score --data timed.jsonl --model lengths.rank --output timed.scored --trace timed.csv
[[ $(sed -n 2p timed.csv | cut -d, -f1-5) == 0.5,3,9,4,5 && $(sed -n 3p timed.csv | cut -d, -f1-5) == 2,4,8,0,8 ]] || fail "timed: $(cat timed.csv)"
"$TESSERA_REPLAY" --trace timed.csv --policy pars "${server[@]}" >/dev/null || fail "the trace with arrivals"
bad() { # TEXT, lines
  local text=$1
  shift
  printf '%s\n' "$@" >bad.jsonl
  refused "$text" "$TESSERA_RANK" score --data bad.jsonl --model lengths.rank --output bad.scored --trace bad.csv
  [[ ! -e bad.csv && ! -e bad.scored ]] || fail "a refused trace left a file"
}
good='{"prompt": "a", "prompt_tokens": 3, "output_tokens": 9}'
bad 'bad.jsonl:2:' "$good" '{"prompt": "a", "output_tokens": 9}'
bad '"prompt_tokens"' '{"prompt": "a", "output_tokens": 9}'
bad '"output_tokens"' '{"prompt": "a", "prompt_tokens": 9}'
bad "'0'" '{"prompt": "a", "prompt_tokens": 0, "output_tokens": 9}'
bad "'2.5'" '{"prompt": "a", "prompt_tokens": 2, "output_tokens": 2.5}'
bad 'at most output_tokens = 2' '{"prompt": "a", "prompt_tokens": 2, "output_tokens": 2, "reasoning_tokens": 3}'
bad 'in all lines or in none' "$good" '{"prompt": "a", "prompt_tokens": 3, "output_tokens": 9, "arrival_s": 1}'
bad 'not before 5' '{"prompt": "a", "prompt_tokens": 3, "output_tokens": 9, "arrival_s": 5}' \
  '{"prompt": "a", "prompt_tokens": 3, "output_tokens": 9, "arrival_s": 4}'

# Real prompts: learn from most of them, serve the rest. No prompt is both learnt from and served.
data=$TESSERA_SOURCE_DIR/../shared/data/gpteacher_gpt4_prompts.jsonl
if [[ -r $data ]]; then
  awk 'NR % 4 == 0 { print > "real_fresh.jsonl"; next } { print > "real_train.jsonl" }' "$data"
  "$TESSERA_RANK" train --data real_train.jsonl --model real.rank >/dev/null
  "$TESSERA_RANK" score --data real_fresh.jsonl --model real.rank --output real.jsonl --trace real.csv
  "$TESSERA_REPLAY" --trace real.csv --rate 4000 --policy fcfs,pars,sjf "${server[@]}" --json numbers.json >table.txt
  below "$(of pars)" "$(of fcfs)" 0.75 "real prompts: pars against fcfs"
  below "$(of sjf)" "$(of pars)" 1 "real prompts: the oracle against pars"
else
  echo "pars.sh: real prompts left out: $data is not here"
fi
echo "pars.sh: ok"
