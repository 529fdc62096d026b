#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What replay says of its own: what was run, which policy wins, and which could not take part. Then sweeps, standard
# output and signals.

set -euo pipefail
replay=$TESSERA_REPLAY
fail() { echo "replay_answers: $*" >&2; exit 1; }
rm -rf ./*

run() { "$replay" --workload reasoning-chat --requests 300 --rate 40 --policy fcfs,rr,pascal "$@"; }
more() { run --policy fcfs,pascal --slo ttft_p90=20,tpot=5 --warmup 1 --drain 0.5 "$@"; }
run > a.txt
more --seed 2 --json second.json --csv second.csv > second.txt
more --seeds 3 > three.txt

# A reader of a file must know what was run; and a table fits a page.
python3 - <<'P'
import csv, json
for r in json.load(open("second.json")):
    assert r["version"] and r["objectives"] == "ttft_p90=20,tpot=5" and r["warmup_s"] == 1 and r["max_batch"] == 256, r
    assert r["profile"] == "h100-96gb-qwen-32b" and r["placement"] and r["prefix_cache"] is True
row = next(csv.DictReader(open("second.csv")))
assert (row["placement"], row["workload"], row["instances"], row["seed"]) == ("least-load", "reasoning-chat", "8", "2"), row
assert row["version"] and float(row["rate"]) > 0 and row["profile"]
for name in "a.txt", "second.txt", "three.txt":
    head, table = open(name).read().split("\n\n")[:2]
    assert all(len(line) <= 100 for line in table.splitlines()), table
    assert "seed" in head and "8 x h100-96gb-qwen-32b" in head and "per second" in head, head
P
grep -q ' has the \| share the ' a.txt || fail "nobody wins: $(cat a.txt)"
grep -q TPOT a.txt && head -6 second.txt | grep -q goodput || fail "columns are missing: $(cat second.txt)"

# A policy that cannot take part is a remark; with none left it is an error.
run --policy fcfs,pars,phasor --instances 2 --rate 10 > some.txt
grep -q '^fcfs ' some.txt || fail "the others do not end a table: $(cat some.txt)"
grep -q '^Left out: the policy pars needs a score' some.txt && grep -q '^Left out: the policy phasor needs at least 3' some.txt ||
  fail "not said who is left out: $(cat some.txt)"

# Standard output is a file like others, and what people read makes room for it.
run --policy fcfs --json - 2> people.txt > out.json
python3 -c 'import json; assert json.load(open("out.json"))[0]["policy"] == "fcfs"' || fail "no JSON on standard output"
grep -q '^fcfs ' people.txt || fail "the table is gone"
run --policy fcfs --csv - 2> people.txt > out.csv
head -1 out.csv | grep -q '^policy,id,' || fail "no CSV on standard output"
"$replay" --version | grep -qx 'replay [0-9]*\.[0-9]*\.[0-9]*' || fail "no version"
if [[ -w /dev/full ]]; then
  for words in --help --version --list-profiles "--workload azure-conv --requests 10 --policy fcfs"; do
    code=0; "$replay" $words > /dev/full 2> err.txt || code=$?
    [[ $code -eq 2 && $(wc -l < err.txt) -eq 1 ]] || fail "$words into a full device: exit code $code, $(cat err.txt)"
  done
fi

# Signals: what is done is printed, and nothing is left, neither by one nor by two at once; the code is the shell's.
for signals in INT TERM INT,TERM; do
  # By Python, because a shell's background jobs do not hear SIGINT.
  python3 - "$replay" $signals <<'P'
import os, signal, subprocess, sys
which = [getattr(signal, "SIG" + s) for s in sys.argv[2].split(",")]
before = sorted(os.listdir("."))
p = subprocess.Popen([sys.argv[1], "--workload", "azure-conv", "--requests", "20000", "--rate", "30", "--seeds", "500",
                      "--policy", "fcfs", "--jobs", "1", "--json", "cut.json", "--csv", "cut.csv", "--report", "cut/page"],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
head = p.stdout.readline()  # it has begun
assert sorted(f for f in os.listdir(".") if f != "cut") == before, os.listdir(".")
for s in which: p.send_signal(s)
out, err = p.communicate(timeout=60)
assert p.returncode in [128 + s for s in which], (p.returncode, err)
assert "Interrupted" in out and not err, (out, err)
assert sorted(os.listdir(".")) == before, os.listdir(".")
P
done
# Neither does a simulation of a long time without requests keep a signal waiting, nor does it take long.
printf 'arrival_s,prompt_tokens,output_tokens\n0,100,20\n9e8,100,20\n' > far.csv
timeout 60 "$replay" --trace far.csv --policy cascade,llumnix,phasor,due-first --instances 4 > out.txt || fail "a long pause"

# A sweep: a row for each policy and value, the same on any number of threads.
free() { "$replay" --workload reasoning-chat --requests 300 "$@"; }
swept() { free --policy fcfs,pascal --slo ttft_p90=20,tpot=5 "$@"; }
swept --sweep rate-scale=0.5:2:0.5 --seeds 2 --jobs 1 --csv sweep1.csv --json sweep.json > sweep1.txt
swept --sweep rate-scale=0.5:2:0.5 --seeds 2 --jobs 3 --csv sweep3.csv > sweep3.txt
cmp sweep1.txt sweep3.txt || fail "the number of threads matters to a sweep"
grep -q '^Goodput, .* by rate-scale' sweep1.txt && grep -q 'meets* the objectives' sweep1.txt || fail "$(cat sweep1.txt)"
run --policy fcfs,phasor --sweep instances=1:4 --csv sizes.csv > sizes.txt
grep -q '^phasor cannot run at instances 1, 2\.$' sizes.txt || fail "not said where it cannot run: $(cat sizes.txt)"
run --policy fcfs --instances 2 --json two.json > two.txt
python3 - <<'P'
import csv, json
rows = list(csv.DictReader(open("sweep1.csv")))
assert len(rows) == 2 * 4 * 2 and {r["policy"] for r in rows} == {"fcfs", "pascal"}
assert sorted({float(r["sweep_rate_scale"]) for r in rows}) == [0.5, 1, 1.5, 2]
assert {r["seed"] for r in rows} == {"1", "2"} and all(float(r["slo_goodput_requests_per_s"]) > 0 for r in rows)
same = {k for k in rows[0] if "wall" not in k and "scheduler_ns" not in k}
for a, b in zip(rows, csv.DictReader(open("sweep3.csv")), strict=True):
    assert all(a[k] == b[k] for k in same), (a, b)
slow, fast = ([r for r in rows if r["sweep_rate_scale"] == s][0] for s in ("0.5", "2"))
assert abs(float(fast["rate"]) / float(slow["rate"]) - 4) < 1e-6
assert len(json.load(open("sweep.json"))) == 2 * 4
sizes = list(csv.DictReader(open("sizes.csv")))
assert [(r["instances"], r["policy"]) for r in sizes] == [("1", "fcfs"), ("2", "fcfs"), ("3", "fcfs"), ("3", "phasor"),
                                                          ("4", "fcfs"), ("4", "phasor")]
# A value of a sweep is a run like any other.
two = json.load(open("two.json"))[0]
assert abs(float(sizes[1]["ttft_p99"]) - two["ttft"]["p99"]) < 1e-9
P
if command -v gnuplot > /dev/null; then
  swept --sweep rate=20,40 --plot pictures > pictures.txt 2> pictures.err
  ! grep -qv '^[^:]*: [0-9]* %' pictures.err || fail "gnuplot says: $(cat pictures.err)"
  tail -c 20 pictures/sweep.svg | grep -q '</svg>' && grep -q Goodput pictures/sweep.svg || fail "no picture of a sweep"
fi
for other in '--rate 3' '--rate-scale 2' '--sweep rate=1,2'; do
  code=0; free $other --sweep rate-scale=1,2 > out.txt 2> err.txt || code=$?
  [[ $code -eq 2 && ! -s out.txt && $(wc -l < err.txt) -eq 1 ]] || fail "a sweep of the rate and $other"
done
code=0; run --instances 3 --sweep instances=1,2 > out.txt 2> err.txt || code=$?
[[ $code -eq 2 ]] && grep -q 'exclude each other' err.txt || fail "a sweep of the size and a size: $(cat err.txt)"
for sweep in '' rate rate= speed=1:2 rate-scale=0:1 rate-scale=2:1 instances=1.5,2 instances=0:3 rate=1:2:3:4; do
  code=0; free --sweep "$sweep" --csv refused.csv > out.txt 2> err.txt || code=$?
  [[ $code -eq 2 && ! -s out.txt && ! -e refused.csv && $(wc -l < err.txt) -eq 1 ]] || fail "the sweep '$sweep': $(cat err.txt)"
done

# Sessions: their later turns wait for answers, so the rate is what came of it.
"$replay" --workload agentic --requests 400 --rate 40 --policy fcfs --slo ttft_p99=2 --json turns.json --csv turns.csv > out.txt
grep -q '^400 requests, in [0-9]* sessions, which begin at ' out.txt || fail "a rate of sessions: $(cat out.txt)"
python3 - <<'P'
import csv, json
at = [float(r["arrival_s"]) for r in csv.DictReader(open("turns.csv"))]
came = (len(at) - 1) / (max(at) - min(at))
row = json.load(open("turns.json"))[0]
assert abs(row["rate"] / came - 1) < 1e-3, (row["rate"], came)
assert row["slo"]["goodput_requests_per_s"] <= came * 1.001
P

# A short run under far too much is an overload, too; and where nothing can be told, that is said.
{ echo arrival_s,prompt_tokens,output_tokens; for i in $(seq 0 199); do echo "$((i / 10)).$((i % 10)),1500,400"; done; } > short.csv
"$replay" --trace short.csv --policy fcfs --instances 1 > out.txt
grep -q '^The load is more than the cluster carries' out.txt || fail "20 seconds of overload: $(cat out.txt)"
printf 'prompt_tokens,output_tokens,arrival_s\n100,5,1\n100,5,1\n' > once.csv
"$replay" --trace once.csv --policy fcfs --requests 5 --seeds 2 > out.txt
grep -q '^2 requests, all at once' out.txt || fail "a rate of nothing: $(cat out.txt)"
grep -q '^Too few arrivals, .*: fcfs (in 2 of 2 runs)$' out.txt || fail "not said that nothing can be told: $(cat out.txt)"
grep -q '^once.csv has 2 requests: fewer than --requests 5' out.txt || fail "not said how many there are: $(cat out.txt)"
grep -q '^The trace says when its requests arrive: all seeds' out.txt || fail "not said what seeds do: $(cat out.txt)"
"$replay" --trace once.csv --policy fcfs --instances 1 --fault die:0@0 --slo ttft_p99=1 > out.txt
grep -q 'were never served: fcfs 2$' out.txt && grep -q 'too few have ended for a ttft_p99 where 1 s' out.txt || fail "nobody is left: $(cat out.txt)"

# Two things that are called SLO would be one too many; what is asked for has a column, and its tail a name.
"$replay" --workload reasoning-chat --requests 300 --instances 4 --rate 4 --policy fcfs,distserve --slo ttft_p95=60,first_token_p99=5 --json cols.json > out.txt
grep -q 'pace' out.txt && ! grep -q '^ .* SLO ' out.txt || fail "two SLOs: $(cat out.txt)"
head -6 out.txt | grep -q '1st token' && sed -n 5,6p out.txt | grep -q p95 || fail "no column for an objective: $(cat out.txt)"
grep -q '^The instances of distserve are divided by a rule, not by this load: --pools auto plans the division' out.txt || fail "$(cat out.txt)"
grep -q '^The profile h100-96gb-qwen-32b: .*not measured' out.txt || fail "what was not measured is not said: $(cat out.txt)"
! grep -q 'default of --instances' out.txt || fail "4 is no default: $(cat out.txt)"
"$replay" --workload reasoning-chat --requests 50 --policy distserve --pools 5/3 > out.txt
! grep -q 'divided by a rule' out.txt || fail "as asked for: $(cat out.txt)"
grep -q '^8 x h100-96gb-qwen-32b (the default of --instances), ' out.txt || fail "a default is not called one: $(cat out.txt)"
python3 - <<'P'
import csv, json, subprocess
(a, b) = json.load(open("cols.json"))
assert set(a["slo"]["bounds"]) == {"ttft_p95", "first_token_p99"} and a["reasoning_share"] > 0.9
assert 0 < a["first_token"]["p99"] < a["ttft"]["p99"]
P
printf 'arrival_s,prompt_tokens,output_tokens\n0,300,1\n1,100,1\n' > single.csv
"$replay" --trace single.csv --policy fcfs --slo tpot_p99=0.1 > out.txt
grep -q 'tpot_p99 - (no request has one) where 0.1 s are asked for, 100.00 % within' out.txt || fail "a time of nothing: $(cat out.txt)"
printf 'arrival_s,prompt_tokens,output_tokens\n0,30000,10\n1,140000,10\n' > deep.csv
"$replay" --trace deep.csv --policy fcfs --profile h100-80gb-llama-3.1-8b --instances 1 > out.txt
grep -q '^Longer than the 131072 tokens of context that Llama-3.1-8B has, .*: 1 requests\.$' out.txt || fail "a context: $(cat out.txt)"
{ echo arrival_s,prompt_tokens,output_tokens; for i in $(seq 0 199); do echo "$((i / 10 * 3)),300,40"; done; } > ticks.csv
"$replay" --trace ticks.csv --policy fcfs --seeds 3 --json seeds.json > out.txt
grep -q '^100 % of the requests arrive at the same moment as another: the file.s times are ticks of 3 s' out.txt || fail "ticks: $(cat out.txt)"
grep -q '^The trace says when its requests arrive: seed 1 replays it, and each other one draws every 6th of its time' out.txt || fail "windows: $(cat out.txt)"
"$replay" --trace ticks.csv --policy fcfs --instances 2 --fault die:1@12+20 --json dies.json > out.txt
sed -n 6,7p out.txt | grep -q 'in faults' || head -7 out.txt | grep -q 'in faults' || fail "no column of a fault: $(cat out.txt)"
python3 - <<'P'
import json
assert json.load(open("dies.json"))[0]["faults"]["ttft"]["p99"] > 0
P
code=0; "$replay" --workload azure-conv --policy due_first > out.txt 2> err.txt || code=$?
[[ $code -eq 2 && $(wc -l < err.txt) -eq 1 ]] && grep -q "'due_first' (did you mean due-first?); there are: " err.txt || fail "no hint: $(cat err.txt)"
if command -v gnuplot > /dev/null; then
  "$replay" --workload azure-conv --requests 200 --rate 20 --policy fcfs --sweep instances=4:9:1 --slo ttft_p99=2 --plot axes > out.txt
  [[ $(grep -c '^set [xy]tics (' axes/sweep.gp) -eq 2 ]] && grep -q "'ttft_p99 = 2 s'" axes/sweep.gp || fail "axes without numbers, or no line for the SLO"
fi

# Files as others write them, and what to say where something is missing.
printf '{"input_lens": [50, 60], "output_lens": [5, 6], "request_throughput": 2.5, "ttfts": [1, 2]}' > vllm.json
code=0; "$replay" --trace vllm.json --policy fcfs > out.txt 2> err.txt || code=$?
[[ $code -eq 2 ]] && grep -q -- '--rate (requests per second; it was measured at 2.5)' err.txt || fail "no hint: $(cat err.txt)"
"$replay" --trace vllm.json --policy fcfs --rate 2.5 > out.txt || fail "vLLM's results"
grep -q "that are not used: 'ttfts'" out.txt || fail "an unused key is not named: $(cat out.txt)"
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9,480,10\r\n2023-11-16 18:17:04.4,318,0\r\n2023-11-16 18:17:04.9,318,8' > azure.csv
"$replay" --trace azure.csv --policy fcfs > out.txt || fail "Azure's columns"
grep -q '^2 requests, 1 per second' out.txt && grep -q 'that are left out: 1 without output$' out.txt || fail "$(cat out.txt)"
printf '{"prompt_tokens": 100, "output_tokens": 2, "hash_ids": [1, 2, 3, 4, 5, 6, 7]}\n' > hashes.jsonl
code=0; "$replay" --trace hashes.jsonl --rate 1 --policy fcfs > out.txt 2> err.txt || code=$?
[[ $code -eq 2 ]] && grep -q -- '--hash-tokens' err.txt || fail "the option is not named: $(cat err.txt)"
"$replay" --trace hashes.jsonl --rate 1 --policy fcfs --hash-tokens 16 > out.txt || fail "with the option"
printf 'timestamp,prompt_tokens,completion_tokens,status\n3000,50,5,200\n0,60,6,200\n1000,60,6,500\n' > log.csv
"$replay" --trace log.csv --policy fcfs --time-unit ms > out.txt || fail "a log in milliseconds"
grep -q '^2 requests, 0.3333 per second' out.txt && grep -q 'that are left out: 1 failed$' out.txt &&
  grep -q 'out of order, and are sorted by arrival: 1$' out.txt || fail "a log: $(cat out.txt)"
if command -v gzip >/dev/null; then
  # Unpacked, if the tool was built with zlib.
  gzip -c log.csv > log.csv.gz
  code=0; "$replay" --trace log.csv.gz --policy fcfs --time-unit ms > out.txt 2> err.txt || code=$?
  if [[ $code -eq 0 ]]; then
    grep -q '^2 requests, 0.3333 per second' out.txt || fail "a log in gzip: $(cat out.txt)"
    head -c 40 log.csv.gz > cut.csv.gz
    code=0; "$replay" --trace cut.csv.gz --policy fcfs > out.txt 2> err.txt || code=$?
    [[ $code -eq 2 ]] && grep -q 'cut.csv.gz:1:41: expected a whole gzip file' err.txt || fail "cut: $(cat err.txt)"
  else
    [[ $code -eq 2 ]] && grep -q 'a gzip file: unpack it first' err.txt || fail "gzip: $(cat err.txt)"
  fi
fi
echo "replay_answers.sh: ok"
