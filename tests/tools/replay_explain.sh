#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# replay --explain: a timeline for each policy that agrees with the columns, and changes nothing. A question that makes
# no sense is one message and exit code 2.

set -euo pipefail
replay=$TESSERA_REPLAY
fail() { echo "replay_explain: $*" >&2; exit 1; }

run() { "$replay" --workload reasoning-chat --requests 300 --rate 40 --instances 4 --kv-blocks 400 "$@"; }
run --policy fcfs,pascal,due-first --csv plain.csv > plain.txt
run --policy fcfs,pascal,due-first --csv asked.csv --json asked.json --explain 120 > asked.txt
cmp plain.csv asked.csv || fail "asking changes the run"
head -n "$(wc -l < plain.txt)" asked.txt | cmp - plain.txt || fail "asking changes the table"
for policy in fcfs pascal due-first; do
  grep -qx "$policy, request 120:" asked.txt || fail "no timeline of $policy: $(cat asked.txt)"
done
for what in arrived placed starts 'first token' answers ended; do
  [ "$(grep -c " $what " asked.txt)" -ge 3 ] || fail "'$what' is not told of each policy"
done
sed -n '/, request 120:/,$p' asked.txt | awk 'length > 130' | grep -q . && fail "lines are too long"
python3 - <<'P'
import csv, json
rows = {(r["policy"], int(r["id"])): r for r in csv.DictReader(open("asked.csv"))}
for run in json.load(open("asked.json")):
    told, row = run["explained"], rows[run["policy"], 120]
    assert told["request"] == 120
    events = told["events"]
    at = [e["at_s"] for e in events]
    assert at == sorted(at) and all(e["at_s"] <= e["until_s"] for e in events)
    when = {e["what"]: e["at_s"] for e in events}
    for what, column in (("arrived", "arrival_s"), ("starts", "first_scheduled_s"), ("first token", "first_token_s"),
                         ("answers", "phase_change_s"), ("ended", "finish_s")):
        assert abs(when[what] - float(row[column])) < 1e-5, (run["policy"], what)
    for what, column in (("preempted", "preemptions"), ("moved", "migrations")):
        assert sum(e["what"] == what for e in events) == int(row[column]), (run["policy"], what)
    placed = next(e for e in events if e["what"] == "placed")
    assert len(placed["seen"]) == 4 and placed["why"]
    assert sum(e.get("tokens", 0) for e in events if e["what"] == "generates") > 0
P
# The tenant of a request, and the routers in front, are in the CSV as in the JSON.
"$replay" --workload noisy-neighbour --requests 200 --policy fcfs,vtc --routers 3 --report-interval 0.5 --csv t.csv > t.txt
python3 - <<'P'
import csv
rows = list(csv.DictReader(open("t.csv")))
assert {r["tenant"] for r in rows} == {"0", "1", "2", "3"}
assert all(r["routers"] == "3" and float(r["report_interval_s"]) == 0.5 for r in rows)
assert all(r["tenant"] == "" and "routers" not in r for r in csv.DictReader(open("plain.csv")))
P
run --policy fcfs --explain request:120 > named.txt
grep -qx 'fcfs, request 120:' named.txt || fail "request:120"

# A second: all that is decided in it.
run --policy fcfs,rr --explain 4.5 --json second.json > second.txt
grep -qx 'rr, from 4.500 s to 5.500 s:' second.txt || fail "no second: $(cat second.txt)"
python3 - <<'P'
import json
for run in json.load(open("second.json")):
    told = run["explained"]
    assert told["from_s"] == 4.5 and told["to_s"] == 5.5 and "request" not in told
    assert told["events"] and all(4.5 <= e["at_s"] < 5.5 for e in told["events"])
    assert [i["instance"] for i in told["instances"]] == [0, 1, 2, 3]
P

# A second in which nothing was planned: the plan that holds comes first, with the layout that it keeps.
run --policy due-first --explain time:6.5 > second.txt
sed -n '/from 6.500 s/,/instance/p' second.txt | tr -s '\n ' ' ' | grep -q 'at [0-5]\.[0-9]* s a plan, as .*: headroom instance' ||
  fail "not the plan that holds: $(cat second.txt)"

refuse() { # message, options
  local words=$1
  shift
  local code=0
  run --policy fcfs "$@" > out.txt 2> err.txt || code=$?
  [ "$code" -eq 2 ] || fail "$*: exit code $code"
  [ "$(wc -l < err.txt)" -eq 1 ] && grep -q "$words" err.txt || fail "$*: $(cat err.txt)"
}
refuse 'there is no request 300 to explain: they are 0 to 299' --explain 300
refuse 'a request, as 17 or request:17, or a time' --explain x
refuse 'nothing happens at 1e+06 s: the run is from 0\.[0-9]* s to [0-9.]* s' --explain time:1000000
[ -s out.txt ] && fail "a table was begun before the complaint: $(cat out.txt)"
refuse 'exclude each other' --explain 3 --sweep rate-scale=1,2
refuse 'needs a value' --explain ''
