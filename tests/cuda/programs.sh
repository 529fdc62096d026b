#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cuda_decode from outside, on the emulated device: what it prints and writes, and what it refuses with exit code 2.
set -euo pipefail

fail() {
  echo "FAILED: $1" >&2
  exit 1
}
refuses() { # words that standard error must have; the rest: arguments
  local words=$1 code=0
  shift
  "$TESSERA_CUDA_DECODE" "$@" >out 2>err </dev/null || code=$?
  [ "$code" -eq 2 ] || fail "exit code $code, not 2: $* ($(cat err))"
  grep -qF -- "$words" err || fail "'$words' is not in: $(cat err)"
  [ "$(wc -l <err)" -eq 1 ] || fail "more than a line: $(cat err)"
}
decode() { "$TESSERA_CUDA_DECODE" "$@"; }
json() { python3 -c "import json, sys; d = json.load(open(sys.argv[1])); sys.exit(0 if $2 else 1)" "$1" || fail "$1: not $2"; }

decode check >out
[ "$(grep -c ': good$' out)" -eq 6 ] || fail "check: $(cat out)"

# A trace under every policy, with memory that binds; and in which nothing fits.
cat >trace.csv <<'END'
arrival_s,prompt_tokens,output_tokens,reasoning_tokens,answer_tokens
0,30,12,6,6
0,50,20,16,4
0.1,12,8,0,8
0.2,40,16,8,8
0.2,20,10,5,5
0.3,300,2,0,2
END
shape=(--kv-blocks 9 --host-blocks 32 --max-batch 4 --token-budget 64 --max-context 128)
decode run --trace trace.csv "${shape[@]}" --time-scale 10 --json runs.json --csv requests.csv >out
for policy in fcfs round_robin pascal; do
  grep -qE "^$policy +1 +[0-9.]+" out || fail "$policy: $(cat out)"
  [ "$(grep -c "^$policy," requests.csv)" -eq 6 ] || fail "$(cat requests.csv)"
done
[ "$(grep -c '"completed": 5' runs.json)" -eq 3 ] || fail "five were to be served: $(cat runs.json)"
for part in scheduling sorting copying kernels step; do
  [ "$(grep -cE "^$part +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+%" out)" -eq 3 ] || fail "$part: $(cat out)"
done
if command -v python3 >/dev/null; then
  json runs.json 'd["decoder"]["emulated"] and d["decoder"]["kv_blocks"] == 9 and len(d["runs"]) == 3'
  json runs.json 'all(r["completed"] == 5 and r["rejected"] == 1 for r in d["runs"])'
  json runs.json 'any(r["swapped_blocks"] > 0 for r in d["runs"])'
  json runs.json 'all(0 < r["split"]["kernels"]["share"] <= 1 for r in d["runs"])'
fi

# A profile, which replay and validate read.
decode profile "${shape[@]}" --kv-blocks 64 --quick --profile tiny.json --json numbers.json --steps steps.csv >out
grep -q 'scheduling and upload' out || fail "profile: $(cat out)"
if command -v python3 >/dev/null; then
  json numbers.json 'len(d["bars"]) == 5 and all(type(b["holds"]) is bool for b in d["bars"])'
  json numbers.json 'len(d["profile"]["measured"]["decode"]) >= 4 and d["decoder"]["emulated"]'
fi
for kind in decode prefill mixed; do grep -q "^$kind," steps.csv || fail "steps: $(cat steps.csv)"; done
if [ -n "${TESSERA_CALIBRATE:-}" ]; then
  "$TESSERA_CALIBRATE" steps.csv --profile tiny.json --fit none >out || fail "the steps cannot be read"
fi
if [ -n "${TESSERA_REPLAY:-}" ]; then
  "$TESSERA_REPLAY" --trace trace.csv --profile tiny.json --instances 1 --max-batch 4 --token-budget 64 >out
  grep -qE '^pascal +[a-z-]+ +[0-9.]+' out || fail "the simulator: $(cat out)"
fi
decode validate "${shape[@]}" --profile tiny.json --trace trace.csv --policy fcfs,pascal --json errors.json >out
grep -qE '^pascal +e2e +[0-9.]+ +[0-9.]+ +-?[0-9.]+%' out || fail "validate: $(cat out)"
if command -v python3 >/dev/null; then
  json errors.json 'len(d["validation"]) == 2 and d["validation"][0]["e2e"]["real"] > 0'
fi

# Two steps in flight compute the same; what ends late is computed in vain.
tight=(--load 12 --kv-blocks 16 --host-blocks 32 --token-budget 64 --quantum 8 --demote-above 40)
decode run "${tight[@]}" --json one.json >out
decode run "${tight[@]}" --in-flight 2 --json two.json >out
decode run "${tight[@]}" --in-flight 2 --late-stops --json late.json >out
[ "$(grep -cE '[1-9][0-9]* of them in vain' out)" -eq 3 ] || fail "late stops: $(cat out)"
if command -v python3 >/dev/null; then
  json one.json 'all(r["completed"] == 12 and r["tokens_in_vain"] == 0 for r in d["runs"])'
  json two.json 'all(r["completed"] == 12 and r["tokens_in_vain"] == 0 for r in d["runs"])'
  json two.json 'any(r["swapped_blocks"] > 0 for r in d["runs"])'
  json late.json 'all(r["completed"] == 12 and 0 < r["tokens_in_vain"] <= 12 for r in d["runs"])'
fi

# Uniform split, without graphs, made-up load: the same tokens are computed.
decode run --load 6 --policy fcfs --split uniform --no-graphs --time-scale 100 >out
grep -qE '^fcfs +[0-9.]+' out || fail "uniform: $(cat out)"

refuses 'unknown shape' run --shape huge
refuses "unknown policy 'best'" run --policy best
refuses '--kv-blocks must be from 0' run --kv-blocks -3
refuses '--block-size must be a multiple of 16' run --block-size 24
refuses '--max-batch must be from 1' run --max-batch -1
refuses '--token-budget must not be less' run --token-budget 4
refuses '--in-flight must be from 1 to 2' run --in-flight 3
refuses '--time-scale must be more than 0' run --time-scale 0
refuses '--rate must be more than 0' run --rate -1
refuses 'exclude each other' run --load 3 --trace trace.csv
refuses '--seed must be from 0' run --seed 99999999999999999999
refuses 'would come after' run --load 3 --rate 1e-300
refuses 'and there is room for 16' run --load 3 --kv-blocks 1 --json refused.json
refuses 'and there is room for 16' validate --load 3 --kv-blocks 1 --profile tiny.json --json refused.json
refuses 'is named twice' run --json refused.json --csv ./refused.json
refuses 'is named twice' profile --profile refused.json --json refused.json
refuses 'no-such.csv' run --trace no-such.csv
refuses 'needs --profile' profile
refuses 'needs --profile' validate
refuses 'do not fit' run --kv-blocks 16000000
refuses 'no-such.json' validate --profile no-such.json
refuses 'not of llama-3.2-3b' validate --profile tiny.json --shape llama-3.2-3b
refuses 'needs a value' run --trace ''
refuses 'cannot write' run --load 2 --json no-such-folder/a.json
refuses '--help' run --no-such-option
refuses '--help'
head -c 400 tiny.json >cut.json
refuses 'is it truncated?' validate --profile cut.json
printf 'prompt_tokens,output_tokens\n3,x\n' >bad.csv
refuses 'bad.csv:2:3' run --trace bad.csv --rate 1
refuses 'no-such-weights' run --weights no-such-weights --json refused.json
[ ! -e refused.json ] || fail "a refused run left a file"
if [ -w /dev/full ]; then
  code=0
  decode run --load 1 --policy fcfs >/dev/full 2>err || code=$?
  { [ "$code" -eq 2 ] && grep -q 'cannot write to standard output' err; } || fail "full: $code $(cat err)"
  refuses 'cannot write /dev/full' run --load 1 --policy fcfs --json /dev/full
fi
