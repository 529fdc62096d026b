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

# With several seeds the rate is the mean of theirs.
for seed in 1 2 3; do run --policy fcfs --seed $seed --requests 50 --json rate$seed.json > /dev/null; done
run --policy fcfs --seeds 3 --requests 50 --json rates.json > /dev/null
python3 - <<'P'
import json
of = lambda name: json.load(open(f"{name}.json"))[0]["rate"]
each = [of(f"rate{k}") for k in (1, 2, 3)]
assert len(set(each)) == 3 and abs(of("rates") - sum(each) / 3) < 1e-9, (each, of("rates"))
P

# What says nothing to a policy, and what does not happen, is said.
run --policy fcfs,distserve --requests 50 --pools 5/3 --fault die:3@1e6 --json missed.json > remarks.txt
grep -qx -- '--pools has no effect on fcfs: it has no pools.' remarks.txt || fail "no word about pools: $(cat remarks.txt)"
grep -q 'did not happen: fcfs 1, distserve 1' remarks.txt || fail "no word about a fault: $(cat remarks.txt)"
grep -q '"missed": 1' missed.json || fail "a fault that did not happen is not in the JSON"
run --requests 50 > remarks.txt
grep -q 'has no effect\|did not happen\|J per' remarks.txt && fail "remarks about nothing: $(cat remarks.txt)"

# Energy, where the profile has power: devices that draw the same at all times are a matter of time alone.
"$replay" --print-profile h100-96gb-qwen-32b > plain.json
power() { # idle, busy, file
  sed '1a "power_watts": {"idle": '"$1"', "busy": '"$2"'},' plain.json > "$3"
}
power 700 700 level.json
power 100 700 steep.json
for p in level steep; do
  run --policy fcfs --requests 50 --instances 4 --profile ./$p.json --json $p.out --csv $p.csv > $p.txt
  grep -q 'J per' $p.txt || fail "no energy: $(cat $p.txt)"
done
"$replay" --print-profile ./steep.json > again.json
"$replay" --print-profile ./again.json | cmp - again.json || fail "a profile with power is not what it was"
python3 - <<'P'
import csv, json
level, steep = (json.load(open(f"{p}.out"))[0]["energy"] for p in ("level", "steep"))
rows = list(csv.DictReader(open("level.csv")))
span = max(float(r["finish_s"]) for r in rows) - min(float(r["arrival_s"]) for r in rows)
tokens = sum(int(r["reasoning_tokens"]) + int(r["answer_tokens"]) for r in rows)
assert abs(level["joules"] / (700 * 4 * span) - 1) < 1e-6, (level, span)
assert abs(level["joules_per_output_token"] * tokens / level["joules"] - 1) < 1e-6
assert 100 * 4 * span < steep["joules"] < level["joules"]
assert "energy" not in json.load(open("a.json"))[0]
P
power 800 700 bad.json
"$replay" --workload reasoning-chat --requests 10 --profile ./bad.json > /dev/null 2> bad.err && fail "it waits with more power than it works"
[ "$(wc -l < bad.err)" -eq 1 ] && grep -q 'power_watts.idle' bad.err || fail "said: $(cat bad.err)"

# Orders composed by hand stand alone, or beside the policies that are named.
"$replay" --workload reasoning-chat --requests 50 --order earliest-due,paced --placement in-turn > orders.txt
grep -q '^earliest-due .*in-turn' orders.txt && grep -q '^paced ' orders.txt || fail "no row for an order: $(cat orders.txt)"
grep -q '^fcfs ' orders.txt && fail "policies that nobody named: $(cat orders.txt)"
run --requests 50 --order two-phase > orders.txt
grep -q '^rr ' orders.txt && grep -q '^two-phase ' orders.txt || fail "orders beside policies: $(cat orders.txt)"

# Routers that know their own books and old reports are named, also in the JSON. They do not apply to a policy that
# places requests by itself.
run --policy fcfs,cascade-steady --placement shortest-queue --requests 200 --routers 4 --report-interval 2 --router-shares --json routers.json > routers.txt
grep -q 'behind 4 routers with shares, with reports of 2 s' routers.txt || fail "no word about routers: $(cat routers.txt)"
grep -q '^Left out: the policy cascade-steady places requests by itself' routers.txt || fail "cascade-steady knows no routers: $(cat routers.txt)"
python3 - <<'P'
import json
(r,) = json.load(open("routers.json"))
assert (r["policy"], r["routers"], r["report_interval_s"], r["router_shares"]) == ("fcfs", 4, 2, True)
assert r["completed"] == 200
P
refused() { # words, options
  local words=$1
  shift
  run --policy fcfs --requests 50 "$@" > /dev/null 2> refused.err && fail "not refused: $*"
  [ "$(wc -l < refused.err)" -eq 1 ] && grep -q -- "$words" refused.err || fail "$*: $(cat refused.err)"
}
refused '--routers must be from 1 to 1024, not 0' --routers 0
refused '--report-interval is a number of seconds' --routers 2 --report-interval nan
refused '--report-interval goes with --routers' --report-interval 2
refused '--action-delay is a number of seconds' --routers 2 --action-delay -1
refused '--action-delay goes with --routers' --action-delay 2
refused '--plan-delay is a number of seconds' --plan-delay -1
refused '--router-shares goes with --routers' --router-shares

# Due-first behind a router is what a fleet runs, with plans that take their time.
run --policy due-first --requests 200 --routers 1 --plan-delay 5 --json planned.json > planned.txt
python3 - << 'P' || fail "not due-first behind a router: $(cat planned.txt)"
import json
(r,) = json.load(open("planned.json"))
assert (r["policy"], r["routers"], r["plan_delay_s"], r["completed"]) == ("due-first", 1, 5, 200), r
P

# Seeds, objectives and a window: the same on any number of threads, and a seed's rows are those of that seed alone.
more() { run --policy fcfs,pascal --slo ttft_p90=20,tpot=5 --warmup 1 --drain 0.5 "$@"; }
more --seeds 3 --jobs 1 --csv one.csv --json one.json > one.txt
more --seeds 3 --jobs 4 --csv four.csv > four.txt
cmp one.csv four.csv || fail "the number of threads matters"
cmp one.txt four.txt || fail "the number of threads matters to the table"
grep -q '±' one.txt || fail "no intervals: $(cat one.txt)"
grep -q '^fcfs: meets the SLO in [0-9] of 3 runs; ttft_p90' one.txt || fail "no word about the objectives: $(cat one.txt)"
more --seed 2 --csv second.csv --json second.json > second.txt
diff <(grep ',2$' one.csv) <(tail -n +2 second.csv) || fail "a seed's rows depend on the others"
python3 - <<'P'
import csv, json, statistics
one, second = json.load(open("one.json")), json.load(open("second.json"))
rows = [r for r in csv.DictReader(open("second.csv")) if r["policy"] == "fcfs"]
arrivals = [float(r["arrival_s"]) for r in rows]
begin, end = min(arrivals) + 1, max(arrivals) - 0.5
window = [r for r in rows if begin <= float(r["arrival_s"]) <= end]
s = second[0]
assert 0 < len(window) < 300 and s["measured"] == len(window)
assert abs(s["ttft"]["mean"] - statistics.fmean(float(r["ttft_s"]) for r in window)) < 1e-6
good = [r for r in window if float(r["ttft_s"]) <= 20 and float(r["tpot_s"] or 0) <= 5]
assert abs(s["slo"]["goodput_requests_per_s"] - len(good) * (1 - 1 / len(window)) / (end - begin)) < 1e-6 * len(good)
assert s["slo"]["bounds"]["ttft_p90"]["met"] == (sum(float(r["ttft_s"]) <= 20 for r in window) >= 0.9 * len(window))
assert s["seed"] == 2 and s["instances"] == 8 and s["workload"] == "reasoning-chat"
o = one[0]
assert o["seeds"] == 3 and o["interval95"]["ttft"]["mean"] > 0
of = lambda seed: [r for r in csv.DictReader(open("one.csv")) if r["policy"] == "fcfs" and r["seed"] == str(seed)]
def mean(rows):
    a = [float(r["arrival_s"]) for r in rows]
    return statistics.fmean(float(r["ttft_s"]) for r in rows if min(a) + 1 <= float(r["arrival_s"]) <= max(a) - 0.5)
assert abs(o["ttft"]["mean"] - statistics.fmean(mean(of(i)) for i in (1, 2, 3))) < 1e-6
P

# What goes wrong: instances die, and the pages say what it cost; the same for a seed on any number of threads.
worse() { run --policy fcfs,pascal,distserve --fault die:3@1+2 --fault hang:0@1.5+1 --fault slow:1@0+5x2 "$@"; }
worse --seeds 2 --jobs 1 --csv bad1.csv --json bad1.json > bad1.txt
worse --seeds 2 --jobs 3 --csv bad3.csv > bad3.txt
cmp bad1.csv bad3.csv || fail "the number of threads matters to faults"
cmp bad1.txt bad3.txt || fail "the number of threads matters to the table of faults"
grep -q '^Instances died; requests that began again elsewhere: fcfs [0-9.]* with' bad1.txt || fail "no remark: $(cat bad1.txt)"
run --policy fcfs --mtbf 2 --mttr 1 --seed 3 --csv random.csv --json random.json > random.txt
python3 - <<'P'
import csv, json
for file, seed in (("bad1", 1), ("random", 3)):
    rows = list(csv.DictReader(open(file + ".csv")))
    assert all(r["status"] == "completed" for r in rows), file
    for o in json.load(open(file + ".json")):
        mine = [r for r in rows if r["policy"] == o["policy"]]
        n = len({r["seed"] for r in mine})
        f = o["faults"]
        assert f["deaths"] > 0 and f["down_s"] > 0, (file, f)
        assert o["policy"] == "distserve" or f["recovered"] > 0 and f["recomputed_tokens"] > 0, (file, f)
        assert f["recovered"] * n == sum(int(r["recoveries"]) for r in mine), (file, f)
assert json.load(open("bad1.json"))[0]["faults"]["deaths"] == 1
assert all(o["faults"]["recovered"] == 0 for o in json.load(open("a.json")))
P

# Unlike instances, and pools.
run --policy fcfs --instances 3xh100-96gb-qwen-32b,2xh100-96gb-qwen-32b --csv kinds.csv --json kinds.json > kinds.txt
run --policy fcfs --instances 5 --profile h100-96gb-qwen-32b --csv alike.csv > alike.txt
cmp <(cut -d, -f1-25 kinds.csv) <(cut -d, -f1-25 alike.csv) || fail "two kinds that are one kind differ from it"
run --policy fcfs --instances 3,2 --profile h100-96gb-qwen-32b,h100-96gb-qwen-32b --csv kinds.csv > again.txt
cmp kinds.txt again.txt || fail "two ways to say the kinds"
grep -q '3 x h100-96gb-qwen-32b + 2 x h100-96gb-qwen-32b' kinds.txt || fail "the kinds are not named: $(cat kinds.txt)"
run --policy distserve --pools 6/2 --csv six.csv > six.txt
run --policy distserve --csv four.csv > four.txt
cmp -s six.csv four.csv && fail "the pools do not matter"
run --policy distserve,splitwise --instances 4 --pools auto --slo ttft_p90=60,tpot_p90=5 --jobs 2 > auto.txt
grep -q '^distserve: pools [1-3]/[1-3]/0, which carry [0-9.]* times' auto.txt || fail "no plan: $(cat auto.txt)"
# With many instances, only those that are used cost something.
"$replay" --workload azure-conv --requests 20 --instances 65536 --policy fcfs > many.txt

# Prefixes and sessions: what is found is said, and what is not read is named; without a cache nothing is found.
cat > shared.jsonl <<'T'
{"timestamp": 0, "input_length": 1100, "output_length": 3, "hash_ids": [1, 2, 3]}
{"timestamp": 90000, "input_length": 1030, "output_length": 3, "hash_ids": [1, 2, 4], "user": 7}
T
cat > turns.csv <<'T'
session,arrival_s,think_s,prompt_tokens,output_tokens,note
a,0,,100,50,x
a,,30,200,5,x
T
"$replay" --instances 1 --trace shared.jsonl --policy fcfs,due-first --json a.json > a.txt
grep -q "^Columns of shared.jsonl that are not used: 'user'$" a.txt || fail "an unused key is not named: $(cat a.txt)"
"$replay" --instances 1 --trace shared.jsonl --policy fcfs --prefix-cache off --json b.json > b.txt
grep -q hits b.txt && fail "hits without a cache"
"$replay" --instances 1 --trace turns.csv --policy fcfs --csv turns.out > c.txt
grep -q "^Columns of turns.csv that are not used: 'note'$" c.txt || fail "an unused column is not named: $(cat c.txt)"
for workload in multi-turn agentic; do
  "$replay" --workload $workload --requests 400 --policy fcfs,pascal,due-first > one.txt
  "$replay" --workload $workload --requests 400 --policy fcfs,pascal,due-first --jobs 2 > two.txt
  cmp one.txt two.txt && grep -q hits one.txt || fail "$workload: $(cat one.txt)"
done
python3 - <<'P'
import csv, json
for r in json.load(open("a.json")):
    assert abs(r["prefix_hit_rate"] - 1024 / 2130) < 1e-9, r["prefix_hit_rate"]
assert json.load(open("b.json"))[0]["prefix_hit_rate"] == 0
first, second = csv.DictReader(open("turns.out"))
assert abs(float(second["arrival_s"]) - float(first["finish_s"]) - 30) < 1e-6
assert second["cached_tokens"] == "144" and first["cached_tokens"] == "0"
P

# What only some seeds have, here whole sessions in the measured time, is of these.
printf 'prompt_tokens,output_tokens,session\n100,10,\n100,10,a\n200,10,a\n100,10,\n100,10,\n' > some.csv
"$replay" --policy fcfs --trace some.csv --rate 2 --warmup 0.1 --instances 1 --seeds 3 --json some.json --csv some.out > some.txt
for seed in 1 2 3; do
  "$replay" --policy fcfs --trace some.csv --rate 2 --warmup 0.1 --instances 1 --seed $seed --json some$seed.json > /dev/null
done
python3 - <<'P'
import json, statistics
each = [json.load(open(f"some{k}.json"))[0] for k in (1, 2, 3)]
means = [e["session"]["mean"] for e in each if "session" in e]
assert 0 < len(means) < 3, "the seeds have to differ in it"
all = json.load(open("some.json"))[0]
assert all["seeds"] == 3 and abs(all["session"]["mean"] - statistics.fmean(means)) < 1e-9, (all["session"], means)
P

# Files by other names than UTF-8's, and what is written to no file.
odd=$'caf\xe9.csv'
cp some.csv "$odd"
one=(--policy fcfs --rate 2 --instances 1)
"$replay" --trace "$odd" "${one[@]}" --json odd.json --csv odd.csv > odd.txt || fail "a name that is no UTF-8"
grep -q $'"trace": "caf\xef\xbf\xbd.csv"' odd.json && [ -s odd.csv ] || fail "a name that is no UTF-8: $(grep trace odd.json)"
"$replay" --trace some.csv "${one[@]}" --json plain.json > plain.txt
"$replay" --trace some.csv "${one[@]}" --json >(cat > piped.json) > piped.txt || fail "a pipe that the shell has opened"
wait $! # until its reader has ended
"$replay" --trace some.csv "${one[@]}" --json /dev/stdout | cat > stdout.txt || fail "standard output by its name"
same() { diff <(grep -v 'per_wall_s\|"mean": [0-9.]*,\|"p99"' "$1") <(grep -v 'per_wall_s\|"mean": [0-9.]*,\|"p99"' "$2"); }
same plain.json piped.json || fail "another JSON in a pipe"
grep -q '^fcfs ' stdout.txt && grep -q '"policy": "fcfs"' stdout.txt || fail "standard output by its name: $(cat stdout.txt)"

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
# What is read is not written over, by whatever name.
printf "${h}1,10,5\n" > kept.csv && cp kept.csv copy.csv && ln -s kept.csv soft.csv && ln kept.csv hard.csv
for name in kept.csv soft.csv hard.csv ./kept.csv; do
  for option in --json --csv; do
    code=0; "$replay" --trace kept.csv --policy fcfs $option $name > out.txt 2> err.txt || code=$?
    [[ $code -eq 2 && $(wc -l < err.txt) -eq 1 ]] && cmp -s kept.csv copy.csv || fail "$option $name: $(cat err.txt)"
  done
done
mkdir drawn && cp kept.csv drawn/ttft_cdf.gp
code=0; "$replay" --trace drawn/ttft_cdf.gp --policy fcfs --plot drawn > out.txt 2> err.txt || code=$?
[[ $code -eq 2 ]] && cmp -s drawn/ttft_cdf.gp copy.csv || fail "a picture over the trace: $(cat err.txt)"
for closed in '2>&-' '2>/dev/full'; do
  code=0; bash -c "'$replay' --bogus $closed" || code=$?
  [[ $code -eq 2 ]] || fail "nobody hears the error ($closed): exit code $code"
done
ln -s there.json dangling.json
"$replay" --trace kept.csv --policy fcfs --json dangling.json > out.txt && [[ -L dangling.json && -s there.json ]] || fail "a link to nothing"
code=0; "$replay" --trace kept.csv --policy fcfs --json r/index.html --report r 2> err.txt || code=$?
[[ $code -eq 2 && ! -e r ]] || fail "two options for one file: $(cat err.txt)"
printf 'arrival_s, prompt_tokens ,output_tokens\n 1, 10 ,5\n' > blanks.csv && "$replay" --trace blanks.csv --policy fcfs > out.txt || fail "blanks"
refused --trace missing.csv
refused_at 1:1 ''
refused_at 2:1 "$h"
refused_at 1:1 'a,b\n1,2\n'
printf 'arrival_s,prompt_tokens,reasoning_tokens,answer_tokens\n1,10,3,4\n' > phases.csv && "$replay" --trace phases.csv --policy fcfs > out.txt || fail "phases without their sum"
refused_at 1:10 'arrival_s;prompt_tokens;output_tokens\n1;10;5\n'
refused_at 2:3 "${h}1,-3,5\n"
refused_at 2:1 "${h}nan,3,5\n"
refused_at 2:1 "${h}inf,3,5\n"
refused_at 2:3 "${h}1,99999999999999999999,5\n"
refused_at 3:1 "${h}1,10,5\nx,10,5\n"
refused_at 2:3 'arrival_s,prompt_tokens,output_tokens\r1,x,5\r'
refused_at 2:1 'timestamp,prompt_tokens,output_tokens\n1,10,5\n5,10,5\n'
grep -q -- '--time-unit' err.txt || fail "a unit is not asked for: $(cat err.txt)"
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
refused $w --prefix-cache perhaps
refused --trace shared.jsonl --hash-tokens 0
refused --trace shared.jsonl --hash-tokens 16
grep -q 'shared.jsonl:1:72: expected hash_ids, 69 whole numbers' err.txt || fail "a number for each 16: $(cat err.txt)"
refused_at 1:40 '{"prompt_tokens": 1, "output_tokens": 2\n'
refused $w --profile nonsense
refused $w --instances 0
refused --workload azure-conv --requests 0
refused $w --kv-blocks 1
refused $w --kv-blocks 0
refused $w --rate 0
refused $w --rate -1
refused $w --rate nan
refused $w --rate 1e300
refused $w --rate-scale 1e300
refused $w --seed x
refused $w --max-batch 0
refused
for f in '' die die:8@1 hang:1@1 slow:1@1+5 burn:1@1+5; do refused $w --fault "$f"; done
refused $w --fault die:8@1
grep -q 'they are 0 to 7' err.txt || fail "which instances there are is not said: $(cat err.txt)"
refused $w --mtbf 5
refused $w --mtbf 0 --mttr 1
refused $w --mtbf 1e-9 --mttr 1e-9
refused $w --mtbf 1e300 --mttr 1
refused $w --detection -1
refused $w --detection 1e300
for p in '' 4 4/5 0/8 3/3 4/4/; do refused $w --policy distserve --pools "$p"; done
refused $w --policy distserve --pools 3/3/2
refused $w --policy distserve --pools auto
grep -q -- '--slo' err.txt || fail "objectives are not asked for: $(cat err.txt)"
refused $w --policy cascade --instances 2000
for n in '' x 4x 4, ,4 4,4 -1 1.5 4xnonsense 0xh100-96gb-qwen-32b; do refused $w --instances "$n"; done
refused $w --instances 4xh100-96gb-qwen-32b,4xh200-llama-3.1-8b
grep -q 'one model' err.txt || fail "not said why: $(cat err.txt)"
refused $w --seeds 0
refused $w --seed -1
refused $w --seed 010
grep -q '010 begins with a 0' err.txt || fail "octal: $(cat err.txt)"
"$replay" $w --policy fcfs --seed 0 > out.txt || fail "0 is a number"
refused $w --seed 18446744073709551615
refused $w --hash-tokens 0
refused $w --hash-tokens 16
refused $w --time-unit ms
refused $w --run 1
refused --trace kept.csv --time-unit h
refused --trace kept.csv --run 2
refused --trace kept.csv --run 0
refused --trace kept.csv --hash-tokens 16
refused $w --plot-format png
refused $w --detection 5
refused $w --instances 4xh100-96gb-qwen-32b,4 --profile h100-96gb-qwen-32b,h100-96gb-qwen-32b
refused $w --rate x
grep -q -- '--rate = x: a number is expected' err.txt || fail "not said what: $(cat err.txt)"
refused $w --fault hang:0@0+1e6
# No clock tells such times apart.
refused $w --rate 1e-9
grep -q 'a replay spans at most' err.txt || fail "a span: $(cat err.txt)"
printf 'prompt_tokens,output_tokens,session,think_s\n' > think.csv
for i in $(seq 1000); do echo '10,5,a,1e12'; done >> think.csv
refused --trace think.csv --rate 1 --policy phasor
grep -q 'a replay spans at most' err.txt || fail "time of thought: $(cat err.txt)"
# Deep JSON.
python3 -c 'print("{\"input_lens\": [" + "[" * 100000 + "]" * 100000 + "], \"output_lens\": [1]}")' > deep.json
refused --trace deep.json --rate 1
grep -q 'at most 512 deep' err.txt || fail "deep: $(cat err.txt)"
refused $w --instances 4xh100-96gb-qwen-32b --profile h200-llama-3.1-8b
printf "${h}1,10,5\n1,10,5\n" > once.csv
refused --trace once.csv --rate-scale 2
refused $w --seeds 100000
refused $w --jobs -1
refused $w --jobs 0
refused $w --report -
refused $w --slo ttft
grep -q 'ttft_p99=2,tpot_p99=0.05' err.txt || fail "no example of objectives: $(cat err.txt)"
refused $w --slo ''
refused $w --warmup -1
refused $w --warmup nan
refused $w --warmup 1e6
grep -q 'leave nothing to measure' err.txt || fail "not said why: $(cat err.txt)"
# Nor under any later seed.
late=(--workload azure-conv --requests 40 --rate 1 --policy fcfs --seed 2 --warmup 35)
"$replay" "${late[@]}" > out.txt || fail "the first seed has something to measure"
refused "${late[@]}" --seeds 8
grep -q 'leave nothing to measure' err.txt || fail "a later seed: $(cat err.txt)"
