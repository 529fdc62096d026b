#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The contract of capacity: what it finds is what replay says, what it writes, and that bad input is one message.

set -euo pipefail
[[ -n ${TESSERA_CAPACITY:-} && -n ${TESSERA_REPLAY:-} ]] || exit 77
capacity=$TESSERA_CAPACITY
fail() { echo "capacity.sh: $*" >&2; exit 1; }
rm -rf ./*

load=(--workload azure-conv --requests 1500)
slo=(--slo ttft_p99=2,tpot_p99=0.1)
some=("${load[@]}" --rate 20 "${slo[@]}" --policies fcfs,distserve,sarathi --price-per-hour 2.5)
"$capacity" "${some[@]}" --json a.json --csv a.csv > a.txt 2> a.err
! grep -qv '^[^:]*: [0-9]* %' a.err || fail "said: $(cat a.err)"
"$capacity" "${some[@]}" --jobs 1 > b.txt
cmp a.txt b.txt || fail "the number of threads matters"
awk '/^policy/ { table = 1 } table && length($0) > 112 { exit 1 } /^$/ { if (table) exit 0 }' a.txt || fail "too wide: $(cat a.txt)"
grep -q '^fcfs: [0-9]* instances; with [0-9]* instances, ' a.txt || fail "no word about less: $(cat a.txt)"
grep -q ' fewest, [0-9]* instances, which is [0-9.]* for a million output tokens' a.txt || fail "no conclusion: $(cat a.txt)"
# With several seeds all must meet the objectives: as many instances as the worst of them needs alone.
for seed in 1 2 3; do
  "$capacity" "${load[@]}" --rate 20 "${slo[@]}" --policies fcfs --seed $seed --json seed$seed.json > /dev/null
done
"$capacity" "${load[@]}" --rate 20 "${slo[@]}" --policies fcfs --seeds 3 --json seeds.json > seeds.txt
grep -q ', seeds 1 to 3, ' seeds.txt || fail "no word about seeds: $(cat seeds.txt)"
python3 - <<'P'
import json
need = lambda name: json.load(open(f"{name}.json"))[0]
assert need("seeds")["instances"] == max(need(f"seed{k}")["instances"] for k in (1, 2, 3))
assert need("seeds")["seeds"] == 3 and need("seed1")["seeds"] == 1
P
"$capacity" "${load[@]}" "${slo[@]}" --policies fcfs,distserve --find rate --instances 3 --json rate.json > rate.txt
grep -q 'most, [0-9.]* requests per second' rate.txt || fail "no conclusion: $(cat rate.txt)"
python3 - "$TESSERA_REPLAY" <<'P'
import csv, json, subprocess, sys

def replay(*words):
    out = subprocess.run([sys.argv[1], "--workload", "azure-conv", "--requests", "1500", "--slo", "ttft_p99=2,tpot_p99=0.1",
                          "--json", "-", *words], capture_output=True, text=True, check=True).stdout
    r = json.loads(out)[0]
    return r["slo"]["met"] and r["load"]["state"] != "overload", r

found = json.load(open("a.json"))
assert [f["policy"] for f in found] == ["fcfs", "distserve", "sarathi"]
assert [f["how"] for f in found] == ["colocated", "split", "colocated"]
for f, row in zip(found, csv.DictReader(open("a.csv")), strict=True):
    assert row["policy"] == f["policy"] and row["instances"] == str(f["instances"]) and row["version"] == f["version"]
    pools = [] if f["how"] == "colocated" else ["--pools", f["pools"].rsplit("/", 1)[0]]
    met, r = replay("--policy", f["policy"], "--rate", "20", "--instances", str(f["instances"]), *pools)
    assert met and f["meets"], f
    assert abs(r["ttft"]["p99"] - f["ttft"]["p99"]) < 1e-9 and f["slo"]["met"], f
    # One less does not do, in no division.
    less = f["instances"] - 1
    assert f["fails_at"]["instances"] == less and f["fails_at"]["because"]
    for way in [[]] if not pools else [["--pools", f"{p}/{less - p}"] for p in range(1, less)]:
        assert not replay("--policy", f["policy"], "--rate", "20", "--instances", str(less), *way)[0], (f, way)
    assert f["cost_per_million_output_tokens"] > f["cost_per_million_tokens"] > 0
cheap, dear = sorted({(f["instances"], f["cost_per_million_output_tokens"]) for f in found})[:1][0], max(
    (f["instances"], f["cost_per_million_output_tokens"]) for f in found)
assert abs(cheap[1] / cheap[0] - dear[1] / dear[0]) < 1e-9 * dear[1]  # a price per instance
for f in json.load(open("rate.json")):
    assert f["instances"] == 3 and f["rate"] < f["fails_at"]["rate"] <= f["rate"] * 1.03, f
    pools = [] if f["how"] == "colocated" else ["--pools", f["pools"].rsplit("/", 1)[0]]
    # To replay the same arrivals: the same factor on the workload's own rate.
    assert replay("--policy", f["policy"], "--instances", "3", "--rate-scale", str(f["rate_scale"]), *pools)[0], f
P
"$capacity" "${load[@]}" --rate 20 --slo ttft_p99=0.00001 --policies fcfs --instances-max 3 > none.txt && fail "an exit code for nobody"
grep -q '^No policy meets the objectives\.$' none.txt && grep -q 'with 3 instances, ' none.txt || fail "nobody can: $(cat none.txt)"
"$capacity" "${load[@]}" --rate 5 "${slo[@]}" --policies fcfs,pars > left.txt
grep -q '^Left out: the policy pars needs a score' left.txt || fail "not said who is left out: $(cat left.txt)"
"$capacity" --version | grep -qx 'capacity [0-9]*\.[0-9]*\.[0-9]*' || fail "no version"

# Far beyond the load asked about, as replay says too; and what was too short to tell is said.
"$capacity" --workload azure-conv --requests 400 --rate 0.05 --find rate --instances 16 --policies fcfs --slo ttft_p99=20 > far.txt
rate=$(sed -n 's/^fcfs carries most, \(at least \)*\([0-9.]*\) .*/\2/p' far.txt)
python3 -c "assert $rate > 0.05 * 64, $rate" || fail "the edge of the search is not the answer: $(cat far.txt)"
"$capacity" --workload azure-conv --requests 20 --rate 5 --policies fcfs --slo ttft_p99=20 > short.txt
grep -q '^Too few arrivals, .*: fcfs$' short.txt || fail "too short, and not said: $(cat short.txt)"

# Where the warm-up or the drain leaves nothing to measure, or the time line is too short, the search ends.
edge=(--workload azure-conv --requests 300 --rate 1 --find rate --instances 4 --slo ttft_p99=5 --policy fcfs)
for left_out in --warmup --drain; do
  "$capacity" "${edge[@]}" $left_out 30 > edge.txt 2> edge.err || fail "$left_out: $(cat edge.err)"
  grep -q '^fcfs: at least [0-9.]* requests per second' edge.txt || fail "$left_out: $(cat edge.txt)"
done
printf 'arrival_s,prompt_tokens,output_tokens\n0,100,5\n1e8,100,5\n5e8,100,5\n' > long.csv
code=0; "$capacity" --trace long.csv --find rate --instances 1 --slo ttft_p99=0.00001 --policy fcfs > long.txt 2> long.err || code=$?
[[ $code -eq 1 ]] || fail "exit code $code: $(cat long.err)"
grep -q '^fcfs: no tried value meets the objectives; with ' long.txt || fail "a long time line: $(cat long.txt)"
"$capacity" --trace $'caf\xe9.csv' "${slo[@]}" > /dev/null 2>&1 && fail "no such trace"
printf 'arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,10,5\n' > $'caf\xe9.csv'
"$capacity" --trace $'caf\xe9.csv' "${slo[@]}" --policy fcfs --json odd.json > /dev/null || fail "a name that is no UTF-8"
grep -q '"trace": "caf' odd.json || fail "a name that is no UTF-8: $(cat odd.json)"

# An objective that an idle instance misses is named before the search, with why, and again behind it.
python3 - <<'P'
import random
r = random.Random(3)
t = 0
with open("reasons.csv", "w") as f, open("plain.csv", "w") as g:
    f.write("arrival_s,prompt_tokens,output_tokens,reasoning_tokens\n")
    g.write("arrival_s,prompt_tokens,output_tokens\n")
    for i in range(1200):
        t += r.expovariate(20 if 60 < t < 75 else 5)
        reasoning = r.randint(800, 1600) if i % 7 == 0 else 0
        f.write(f"{t:.3f},{r.randint(50, 2000)},{reasoning + 100},{reasoning}\n")
        g.write(f"{t:.3f},{r.randint(50, 2000)},{r.randint(20, 300)}\n")
P
traced=(--profile h100-80gb-llama-3.1-8b --policies fcfs --instances-max 8)
"$capacity" --trace reasons.csv "${traced[@]}" --slo ttft_p99=1.5,tpot_p95=0.06 > reasons.txt && fail "the reasoning takes longer than 1.5 s"
[[ $(grep -c '^An idle instance already misses ttft_p99: it takes [0-9.]* s, 1.5 s are asked for.*14.3 % of the requests reason.*first_token_p99' reasons.txt) -eq 2 ]] ||
  fail "no word about reasoning: $(cat reasons.txt)"
"$capacity" --trace reasons.csv "${traced[@]}" --slo first_token_p99=1.5,tpot_p95=0.06 --json first.json > first.txt || fail "the first token is in time"
grep -q 'idle' first.txt && fail "an idle instance meets these: $(cat first.txt)"
grep -q ' first_token_p99  tpot_p95 ' first.txt || fail "no columns for what is asked for: $(cat first.txt)"
grep -q ', the busiest 50 s from \|, the busiest 20 s from ' first.txt || fail "no word about the peak: $(cat first.txt)"
# A size that turns on less than 1 % of a tail is called alike; values have the digits that decide.
bound=$("$TESSERA_REPLAY" --trace plain.csv --profile h100-80gb-llama-3.1-8b --policy fcfs --instances 1 --slo ttft_p99=9 --json - 2> plain.err |
  python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["slo"]["bounds"]["ttft_p99"]["value_s"] * 0.9999)')
"$capacity" --trace plain.csv "${traced[@]}" --slo ttft_p99="$bound" > alike.txt || fail "two do"
grep -q "^Alike within 1 % of the objectives, .*: fcfs with 1 instance (ttft_p99 0.01 % above)" alike.txt || fail "not alike: $(cat alike.txt)"
python3 - "$bound" <<'P'
import re, sys
(value,) = re.findall(r"with 1 instance, ttft_p99 is ([0-9.]+) s", open("alike.txt").read())
assert float(value) > float(sys.argv[1]), (value, sys.argv[1])
P
# Other seeds of a trace draw its windows.
"$capacity" --trace plain.csv "${traced[@]}" --slo ttft_p99=9 --seeds 3 > windows.txt
grep -q '^The trace says when its requests arrive: seed 1 replays it, and each other one draws every 24th' windows.txt || fail "$(cat windows.txt)"
# With an instance that dies: at least as many as without, and no fewer than has that instance.
"$capacity" --trace plain.csv "${traced[@]}" --slo ttft_p99=1 --json whole.json > whole.txt
"$capacity" --trace plain.csv "${traced[@]}" --slo ttft_p99=1 --fault die:1@62+20 --json dies.json --price-per-gpu-hour 2 > dies.txt
grep -q 'TTFT p99 in faults' dies.txt && grep -q 'at least 2 and at most 8' dies.txt || fail "no word about the fault: $(cat dies.txt)"
python3 - <<'P'
import json
whole, dies = (json.load(open(f"{n}.json"))[0] for n in ("whole", "dies"))
assert dies["instances"] >= max(2, whole["instances"]) and dies["faults"]["deaths"] == 1, (whole["instances"], dies)
assert dies["faults"]["ttft"]["p99"] > 0 and "ttft" not in whole["faults"]
assert dies["price_per_hour"] == 2
P
"$capacity" --workload azure-conv --requests 300 --rate 2 --profile h100-80gb-x4-llama-3.3-70b --policies fcfs --slo ttft_p99=9 \
  --price-per-gpu-hour 2 --json four.json > four.txt
grep -q 'h100-80gb-x4-llama-3.3-70b of 4 devices' four.txt && grep -q ' at 8 for an hour of an instance' four.txt || fail "$(cat four.txt)"

# A page that needs nothing beside it, with what was asked, found and drawn; nothing of it where something is refused.
tiny=("${load[@]}" --rate 5 "${slo[@]}" --policies fcfs,sarathi)
"$capacity" "${tiny[@]}" > tiny.txt
"$capacity" "${tiny[@]}" --report "a page" > page.txt
tail -n 1 page.txt | grep -qx 'a page/index.html' && head -n -1 page.txt | cmp - tiny.txt || fail "the page changes the text: $(cat page.txt)"
for word in '<h2>Numbers</h2>' 'within ttft_p99=2,tpot_p99=0.1' '<h2>Why</h2>' 'instances_max' 'h100-96gb-qwen-32b'; do
  grep -q "$word" "a page/index.html" || fail "the page lacks $word"
done
grep -q '^sarathi  *least-load ' "a page/index.html" || fail "the page lacks the table"
if command -v gnuplot > /dev/null; then
  grep -q '<svg' "a page/index.html" || fail "the page lacks its picture"
  "$capacity" "${tiny[@]}" --find rate --instances 1 --plot bars.png > plot.txt
  [[ $(head -c 8 bars.png | od -An -tx1 | tr -d ' \n') == 89504e470d0a1a0a ]] || fail "no PNG"
  grep -qx 'bars.png' plot.txt || fail "the picture is not named"
  grep -q '^"sarathi" [0-9.]* "[0-9.]*"$' bars.gp || fail "no bar: $(head bars.gp)"
  rm bars.png && gnuplot bars.gp && [[ -s bars.png ]] || fail "bars.gp does not draw again"
fi
code=0; "$capacity" "${tiny[@]}" --policies nonsense --report nothing > out.txt 2> err.txt || code=$?
[[ $code -eq 2 && ! -e nothing ]] || fail "a page in spite of an error"
touch file
code=0; "$capacity" "${tiny[@]}" --report file > out.txt 2> err.txt || code=$?
[[ $code -eq 2 && ! -s out.txt && $(wc -l < err.txt) -eq 1 ]] || fail "a folder that is a file"
[[ -z $(find . -name '*.partial*') ]] || fail "left-overs"

refused() {
  local code=0
  "$capacity" "$@" --json out.json --csv out.csv > out.txt 2> err.txt || code=$?
  [[ $code -eq 2 && $(wc -l < err.txt) -eq 1 && ! -s out.txt ]] || fail "exit code $code: $* : $(cat err.txt)"
  [[ -z $(find . -name 'out.json*' -o -name 'out.csv*') ]] || fail "left-overs: $*"
}
refused
refused "${load[@]}"
grep -q 'ttft_p99=2,tpot_p99=0.05' err.txt || fail "no example of objectives: $(cat err.txt)"
refused "${load[@]}" --slo nonsense
refused "${load[@]}" "${slo[@]}" --find rate
refused "${load[@]}" "${slo[@]}" --find speed
refused "${load[@]}" "${slo[@]}" --instances 4
refused "${load[@]}" "${slo[@]}" --policies pars
refused "${load[@]}" "${slo[@]}" --policies nonsense
for n in 0 -1 x 5000 ''; do refused "${load[@]}" "${slo[@]}" --instances-max "$n"; done
for x in 0 -1 nan ''; do refused "${load[@]}" "${slo[@]}" --price-per-hour "$x"; done
refused "${load[@]}" "${slo[@]}" --profile nonsense
refused "${load[@]}" "${slo[@]}" --profile h200
grep -q 'did you mean h200-llama-3.1-8b, ' err.txt || fail "no hint: $(cat err.txt)"
refused "${load[@]}" "${slo[@]}" --price-per-hour 2 --price-per-gpu-hour 2
refused "${load[@]}" "${slo[@]}" --price-per-gpu-hour 0
refused "${load[@]}" "${slo[@]}" --find rate --instances 2 --fault die:0@1
refused "${load[@]}" "${slo[@]}" --jobs 0
refused "${load[@]}" "${slo[@]}" --jobs 02
# Such a number of requests is refused before anything is drawn, except what the first seed needs.
(ulimit -v 4000000; refused --workload azure-conv --requests 1000000 --seeds 100 "${slo[@]}" --policy fcfs --jobs 1 --instances-max 1)
grep -q 'GiB of memory' err.txt || fail "too many requests: $(cat err.txt)"
printf 'arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,10,5\n' > kept.csv && cp kept.csv copy.csv
code=0; "$capacity" --trace kept.csv "${slo[@]}" --json kept.csv > out.txt 2> err.txt || code=$?
[[ $code -eq 2 ]] && cmp kept.csv copy.csv || fail "the trace is written over: $(cat err.txt)"
echo "capacity.sh: ok"
