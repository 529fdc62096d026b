#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The contract of replay: what it prints and writes, and that bad input is one message and exit code 2.

set -euo pipefail
replay=$TESSERA_REPLAY
fail() { echo "replay_contract: $*" >&2; exit 1; }

run() { "$replay" --workload reasoning-chat --requests 300 --rate 40 --policy fcfs,rr,pascal "$@"; }
run --json a.json --csv a.csv > a.txt
run > b.txt
cmp a.txt b.txt || fail "two runs differ"
grep -q '^fcfs ' a.txt && grep -q '^rr ' a.txt && grep -q '^pascal ' a.txt || fail "a row per policy"
[ "$(wc -l < a.csv)" -eq 901 ] || fail "a CSV row per policy and request, and a header"
python3 - <<'P'
import json
rows = json.load(open("a.json"))
assert [r["policy"] for r in rows] == ["fcfs", "rr", "pascal"]
for r in rows:
    for key in ("requests completed rejected slo_violation_rate qoe_mean blocking_p99 throughput_tokens_per_s preemptions "
                "migrations kv_transfer_p99 ttft_by_reasoning_bin simulated_tokens_per_wall_s").split():
        assert key in r, key
    for key in "mean p50 p90 p99 max".split(): assert key in r["ttft"], key
    for name in ("tpot", "e2e"):
        for key in "mean p50 p99".split(): assert key in r[name], (name, key)
    for key in "mean p90".split(): assert key in r["normalized_latency"], key
    for key in "mean peak".split(): assert key in r["fragmentation"], key
    for key in "mean p99".split(): assert key in r["scheduler_ns_per_step"], key
    assert set(r["ttft_by_reasoning_bin"][0]) == {"bin", "n", "stat", "value"}
    assert r["requests"] == r["completed"] == 300 and r["rejected"] == 0
P

refused() { # arguments of replay
  local code=0
  "$replay" "$@" --json out.json --csv out.csv > out.txt 2> err.txt || code=$?
  [ "$code" -eq 2 ] || fail "exit code $code, not 2: $*"
  [ "$(wc -l < err.txt)" -eq 1 ] || fail "not one line: $* : $(cat err.txt)"
  [ ! -s out.txt ] || fail "output in spite of an error: $*"
  ls | grep -q '^out\.\(json\|csv\)' && fail "an output file in spite of an error: $*"
  return 0
}
refused_at() { # line:column, content of a trace for printf
  printf "$2" > bad.csv
  refused --trace bad.csv
  grep -q "bad.csv:$1: expected" err.txt || fail "not at $1: $(cut -c1-200 err.txt)"
}
h='arrival_s,prompt_tokens,output_tokens\n'
refused --trace missing.csv
refused_at 1:1 ''
refused_at 2:1 "$h"
refused_at 1:1 'a,b\n1,2\n'
refused_at 2:3 "${h}1,-3,5\n"
refused_at 2:1 "${h}nan,3,5\n"
refused_at 2:1 "${h}inf,3,5\n"
refused_at 2:3 "${h}1,99999999999999999999,5\n"
refused_at 3:1 "${h}1,10,5\n0.5,10,5\n"
refused_at 1:38 'arrival_s,prompt_tokens,output_tokens\r\n1,10,5\r\n'
refused_at 1:1 "\\xef\\xbb\\xbf${h}1,10,5\n"
refused_at 1:3 'ab\x00cd\n'
printf "$h" > bad.csv && head -c 1000000 /dev/zero | tr '\0' 1 >> bad.csv && refused --trace bad.csv
grep -q 'bad.csv:2:' err.txt || fail "a million characters: $(cut -c1-200 err.txt)"
for json in '' '{' '[]' '{"name": 1}'; do
  printf '%s' "$json" > bad.json
  refused --workload azure-conv --profile ./bad.json
done
w='--workload azure-conv --requests 10'
refused $w --policy nonsense
grep -q 'fcfs, rr, pascal' err.txt || fail "the allowed policies are not listed"
refused $w --policy ''
refused $w --policy fcfs,fcfs
refused --workload nonsense
refused $w --profile nonsense
refused $w --instances 0
refused --workload azure-conv --requests 0
refused $w --kv-blocks 1
refused $w --kv-blocks 0
refused $w --rate 0
refused $w --rate -1
refused $w --rate nan
refused $w --seed x
refused $w --max-batch 0
refused
