#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The contract of calibrate. Steps that were made from known numbers are told by the 14 points, and noise hurts little.
# Bad input is one message, exit code 2 and nothing written. The steps are made here, by the formula of step_timer.

set -euo pipefail
[[ -n ${TESSERA_CALIBRATE:-} ]] || exit 77
calibrate=$TESSERA_CALIBRATE
fail() { echo "calibrate.sh: $*" >&2; exit 1; }
rm -rf ./*

cat > steps.py <<'P'
import json, random, sys
# Llama-3.1-8B on a made-up device of 1e15 operations and 3e12 bytes a second.
base = {"name": "made-up",
        "model": {"name": "8B", "parameters": 8.03e9, "layers": 32, "query_heads": 32, "kv_heads": 8, "head_dim": 128,
                  "bytes_per_weight": 2, "bytes_per_kv_value": 2},
        "gpu": {"name": "G", "flops": 1e15, "flops_efficiency": 0.6, "bytes_per_s": 3e12, "bandwidth_efficiency": 0.85,
                "memory_bytes": 80e9, "usable_memory": 0.9, "launch_seconds": 0.0006, "multiprocessors": 128},
        "links": {"host_bytes_per_s": 5e10, "host_memory_bytes": 1e11, "fabric_bytes_per_s": 1e10}}
json.dump(base, open("base.json", "w"))
class truth:
    launch, bandwidth, flops, kv, attention, request, token, knee = 0.0012, 0.8, 0.72, 0.9, 0.65, 4e-6, 2e-6, 3.2
    least, mixed, history = 70, 2.4, 6.2
def seconds(d, c, n, h, t=truth):
    weights = 16.06e9 / (3e12 * t.bandwidth)
    kv = 131072 / (3e12 * t.kv)
    total = d + n
    arithmetic = 2 * 8.03e9 * total / (1e15 * t.flops)
    products = (weights ** t.knee + arithmetic ** t.knee) ** (1 / t.knee)
    decode = kv * max(d * c, t.least * d) * (t.mixed if d and n else 1)
    prefill = max(kv * (n + h if n else 0), 4 * 32 * 32 * 128 * (n * h + n * (n + 1) / 2) / (1e15 * t.attention))
    attention = decode + prefill
    if n: attention = max(attention, t.history * 131072 / 3e12 * max(n + h, c if d else 0))
    return t.launch + products + attention + t.request * (d + (n > 0)) + t.token * total
points = ([("decode", b, c, 0, 0) for c in (128, 4096) for b in (1, 32, 128)] +
          [("prefill", 0, 0, n, 0) for n in (64, 256, 1024, 8448)] +
          [("mixed", 32, 1024, 512, 0), ("mixed", 128, 1024, 512, 0), ("mixed", 32, 1024, 512, 4096),
           ("mixed", 8, 4096, 1024, 0)])
others = ([("decode", b, c, 0, 0) for b in (2, 8, 64, 100) for c in (16, 300, 1000, 3000, 8000)] +
          [("prefill", 0, 0, n, 0) for n in (32, 128, 700, 3000, 6000)] +
          [("prefill", 0, 0, n, h) for n in (64, 512, 2000) for h in (300, 2000, 10000)] +
          [("mixed", d, c, n, h) for d in (4, 16, 64) for c in (200, 2000) for n in (100, 700, 1500) for h in (0, 3000)])
def write(name, rows, noise=0, scale=1, seed=1):
    r = random.Random(seed)
    with open(name, "w") as f:
        f.write("kind,prefill_tokens,prefill_history,decodes,decode_context,seconds\n")
        for k, d, c, n, h in rows:
            f.write(f"{k},{n},{h},{d},{c},{seconds(d, c, n, h) * scale * (1 + r.gauss(0, noise)):.6g}\n")
write("points.csv", points)
write("all.csv", points + others)
write("others.csv", others)
for seed in range(5): write(f"noisy{seed}.csv", points, 0.02, seed=seed)
write("ms.csv", points, scale=1000)
# Products and weights that hinder each other: together they take longer than one after the other.
truth.knee = 0.6
write("hindered.csv", points + others)
truth.knee = 3.2
write("us.csv", points, scale=1e6)
write("no_prefill.csv", [p for p in points if p[0] != "prefill"])
write("no_mixed.csv", [p for p in points if p[0] != "mixed"])
write("no_largest.csv", [p for p in points if p[1] != 128 or p[0] != "decode"])
write("no_budget.csv", [p for p in points if p[3] != 8448])
write("few.csv", points[:3] + points[6:10] + points[10:])
write("one_context.csv", [p for p in points if p[2] != 4096] + [("decode", 64, 128, 0, 0)])
write("no_history.csv", [p for p in points if p[4] == 0])
# Each step several times, one of them far off: the median counts.
with open("repeats.csv", "w") as f:
    f.write("seconds,kind,decodes,decode_context,prefill_tokens,prefill_history,extra\n")
    for k, d, c, n, h in points:
        for factor in (1, 1.001, 3, 0.999, 1): f.write(f"{seconds(d, c, n, h) * factor:.6g},{k},{d},{c},{n},{h},x\n")
with open("pure.csv", "w") as f:
    f.write("kind,batch,length,seconds\n")
    for k, d, c, n, h in points:
        if k != "mixed": f.write(f"{k},{max(d, 1)},{c or n},{seconds(d, c, n, h):.6g}\n")
P
python3 steps.py

# What is fitted is a profile that the tools read, whatever the steps are.
"$calibrate" hindered.csv --profile base.json --fit all --out hindered.json > hindered.txt 2> hindered.err || fail "$(cat hindered.err)"
python3 -c 'import json; assert json.load(open("hindered.json"))["terms"]["knee"] == 1' || fail "a knee below 1"

# The 14 points tell the others.
"$calibrate" all.csv --profile base.json --name told --out told.json --json told.errors.json > told.txt 2> told.err
[[ ! -s told.err ]] || fail "said: $(cat told.err)"
! grep -q missing told.txt || fail "says that points are missing: $(cat told.txt)"
"$calibrate" points.csv --profile base.json --held-out others.csv --json points.errors.json > points.txt
"$calibrate" points.csv --profile base.json --json turn.errors.json > turn.txt
grep -q 'left out in turn' turn.txt || fail "with nothing held out, each step is to be left out in turn"
for seed in 0 1 2 3 4; do
  "$calibrate" "noisy$seed.csv" --profile base.json --held-out others.csv --json "noisy$seed.errors.json" > /dev/null
done
"$calibrate" repeats.csv --profile base.json --held-out others.csv --json repeats.errors.json > repeats.txt
grep -q ': 14 different steps, 14 fitted' repeats.txt || fail "repeats are one step: $(head -1 repeats.txt)"
"$calibrate" pure.csv --profile base.json --out pure.json > pure.txt
"$calibrate" no_mixed.csv --without-mixed --profile base.json --out without.json > without.txt
! grep -q 'missing' without.txt pure.txt || fail "what was not wanted is missing: $(cat without.txt pure.txt)"
"$calibrate" no_history.csv --profile base.json > no_history.txt
grep -q '^missing: mixed, 32 decodes at 1024 + a chunk of 512 after 4096$' no_history.txt || fail "$(cat no_history.txt)"
[[ $(grep -c '^missing' no_history.txt) -eq 1 ]] || fail "one point is missing: $(cat no_history.txt)"
"$calibrate" all.csv --profile base.json --fit all --out all.json --json all.errors.json > /dev/null
"$calibrate" all.csv --profile told.json --fit none --json again.errors.json > again.txt
grep -q ', 0 fitted, from told' again.txt || fail "--fit none fits nothing: $(head -1 again.txt)"
python3 - <<'P'
import json
def held(name, part="held_out"): return {k: v["mape"] for k, v in json.load(open(name))[part].items()}
def least(e, bound, name):
    for kind, x in bound.items(): assert e[kind] <= x, (name, kind, e[kind], x)
exact = {"decode": 0.015, "prefill": 0.02, "prefill with history": 0.03, "mixed": 0.03}
least(held("told.errors.json"), exact, "told")
least(held("points.errors.json"), exact, "points")
least(held("repeats.errors.json"), exact, "repeats")
least(held("all.errors.json", "left_out_in_turn"), exact, "all")
# 2 % of noise on each of 14 points.
noisy = [held(f"noisy{s}.errors.json") for s in range(5)]
for kind, x in {"decode": 0.02, "prefill": 0.04, "prefill with history": 0.06, "mixed": 0.06}.items():
    mean = sum(e[kind] for e in noisy) / len(noisy)
    assert mean <= x, (kind, mean)
told, base = json.load(open("told.json")), json.load(open("base.json"))
assert told["name"] == "told" and told["model"] == {**base["model"], "name": "8B"} and "told.json" not in told["source"]
t = told["terms"]
assert abs(t["mixed_kv_factor"] - 2.4) < 0.2 and abs(t["longest_history_factor"] - 6.2) < 1, t
assert "measured" not in told
# Without mixed steps nothing is said of them.
for name in ("pure.json", "without.json"):
    assert "mixed_kv_factor" not in json.load(open(name))["terms"], name
# The profile that was written, held against all steps, is as far off as was said.
again, first = json.load(open("again.errors.json")), json.load(open("told.errors.json"))
for kind, e in first["held_out"].items():
    n = again["held_out"][kind]
    part = (e["mape"] * e["steps"] + first["fitted"].get(kind, {"mape": 0, "steps": 0})["mape"] *
            first["fitted"].get(kind, {"mape": 0, "steps": 0})["steps"]) / n["steps"]
    assert abs(part - n["mape"]) < 1e-9, (kind, part, n)
P

# A run that was simulated is met, and the host's part found again.
cat > run.py <<'P'
import json, random
r = random.Random(3)
t = 0
with open("trace.csv", "w") as f:
    f.write("arrival_s,prompt_tokens,output_tokens\n")
    for _ in range(120):
        t += r.expovariate(6)
        f.write(f"{t:.4f},{r.randrange(50, 2500)},{r.randrange(10, 300)}\n")
p = json.load(open("told.json"))
p["terms"]["host_step_seconds"] = 0.002
json.dump(p, open("host.json", "w"))
P
python3 run.py
if [[ -n ${TESSERA_REPLAY:-} ]]; then
  "$TESSERA_REPLAY" --policy fcfs --trace trace.csv --profile host.json --instances 1 --token-budget 2048 --csv out.csv > /dev/null
  python3 - <<'P'
import csv
with open("run.csv", "w") as f:
    f.write("arrival_s,prompt_tokens,output_tokens,measured_ttft_s,measured_tpot_s,measured_e2e_s\n")
    for q in csv.DictReader(open("out.csv")):
        n = int(q["reasoning_tokens"]) + int(q["answer_tokens"])
        f.write(f"{q['arrival_s']},{q['prompt_tokens']},{n},{q['ttft_s']},{q['tpot_s']},{q['e2e_s']}\n")
P
  "$calibrate" --profile host.json --check run.csv --json same.json > same.txt
  # A run twice as fast as the profile's steps: no time of the host's explains it, and nothing is written.
  python3 - <<'P'
import csv
rows = list(csv.DictReader(open("run.csv")))
for r in rows:
    for k in r:
        if k.startswith("measured_") and r[k]: r[k] = float(r[k]) / 2
w = csv.DictWriter(open("fast.csv", "w"), rows[0].keys(), lineterminator="\n")
w.writeheader()
w.writerows(rows)
P
  if "$calibrate" --profile told.json --check fast.csv --fit-host --out fast.json > fast.txt 2> fast.err; then
    fail "a run that no host time explains was fitted"
  fi
  grep -q 'no host time explains it' fast.err || fail "not said why: $(cat fast.err)"
  [ ! -e fast.json ] || fail "written in spite of that"
  # One far slower than the profile's steps: some host time explains it, and that no engine takes so long is said.
  python3 - <<'P'
import csv
rows = list(csv.DictReader(open("run.csv")))
for r in rows:
    for k in r:
        if k.startswith("measured_") and r[k]: r[k] = float(r[k]) * 6
w = csv.DictWriter(open("slow.csv", "w"), rows[0].keys(), lineterminator="\n")
w.writeheader()
w.writerows(rows)
P
  "$calibrate" --profile told.json --check slow.csv --fit-host --json slow.json > slow.txt
  grep -q '^[0-9.]* ms of host time in each step is more than engines were found to take' slow.txt || fail "absurd: $(cat slow.txt)"
  "$calibrate" --profile told.json --check run.csv --fit-host --out fitted.json --json fitted.errors.json > fitted.txt
  "$calibrate" --profile told.json --check run.csv --json unfitted.json > /dev/null
  python3 - <<'P'
import json
same = json.load(open("same.json"))["check"]
for what in ("ttft", "tpot", "e2e"): assert abs(same[what]["mean"]["error"]) < 1e-3, (what, same[what])
assert abs(same["throughput"]["error"]) < 1e-3
assert json.load(open("unfitted.json"))["check"]["e2e"]["mean"]["error"] < -0.03
assert json.load(open("slow.json"))["check"]["host_step_plausible"] is False
assert json.load(open("fitted.errors.json"))["check"]["host_step_plausible"] is True
host = json.load(open("fitted.json"))["terms"]["host_step_seconds"]
assert abs(host - 0.002) < 2e-5, host
P
fi
# The example of the page is a profile.
if [[ -n ${TESSERA_REPLAY:-} ]]; then
  sed -n '/^```json$/,/^```$/p' "$TESSERA_SOURCE_DIR/docs/profiles.md" | grep -v '^```' > example.json
  "$TESSERA_REPLAY" --print-profile ./example.json > printed.json || fail "the example of docs/profiles.md"
  "$TESSERA_REPLAY" --print-profile ./printed.json | cmp - printed.json || fail "printed twice it differs"
  "$TESSERA_REPLAY" --list-profiles > list.txt
  for name in $(grep -v '^ ' list.txt | sed 's/ .*//'); do
    "$TESSERA_REPLAY" --print-profile "$name" | grep -q '"source": "' || fail "$name has no source"
  done
  [[ $(grep -c '(default)' list.txt) -eq 1 ]] || fail "one profile is the default"
  if "$TESSERA_REPLAY" --print-profile nonsense > out.txt 2> err.txt || [[ -s out.txt ]]; then fail "printed nonsense"; fi
fi
if command -v gnuplot > /dev/null; then
  "$calibrate" all.csv --profile base.json --plot picture.svg > /dev/null
  grep -q '</svg>' picture.svg || fail "no picture"
  "$calibrate" all.csv --profile base.json --plot pictures > /dev/null
  [[ -s pictures/calibration.svg && -s pictures/calibration.gp ]] || fail "no picture in a folder"
fi

# What programs read is alone on standard output; a name may be anything.
"$calibrate" points.csv --profile base.json --json - > dash.json 2> dash.txt
python3 -c 'import json; json.load(open("dash.json"))' && grep -q 'error of steps' dash.txt || fail "--json -: $(cat dash.json)"
"$calibrate" points.csv --profile base.json --out - > dash.json 2> dash.txt
python3 -c 'import json; json.load(open("dash.json"))["gpu"]' && grep -q 'error of steps' dash.txt || fail "--out -: $(cat dash.json)"
"$calibrate" points.csv --profile base.json --name $'caf\xe9' --out odd.json > odd.txt || fail "a name that is no UTF-8"
python3 -c 'import json; assert json.load(open("odd.json"))["name"] == "caf\ufffd"' || fail "a name that is no UTF-8"

refused() { # arguments
  local code=0
  "$calibrate" "$@" --out out.json --json out.errors.json > out.txt 2> err.txt || code=$?
  [[ $code -eq 2 ]] || fail "exit code $code, not 2: $*"
  [[ $(wc -l < err.txt) -eq 1 ]] || fail "not one line: $* : $(cat err.txt)"
  [[ ! -s out.txt ]] || fail "output in spite of an error: $*"
  [[ -z $(find . -name 'out.*json*' -o -name '*.partial*') ]] || fail "left-overs: $*"
}
says() { # arguments of grep
  grep -q "$@" err.txt || fail "it says: $(cat err.txt)"
}
refused_at() { # line:column, content for printf
  printf "$2" > bad.csv
  refused bad.csv --profile base.json
  says "bad.csv:$1: expected"
}
refused
refused points.csv
refused --profile base.json
refused points.csv --profile nonsense
refused points.csv --profile base.json --fit some
refused points.csv --profile base.json --fit ''
refused missing.csv --profile base.json
refused --profile base.json --plot x
# What is as large as fits is asked for where nothing larger was measured than for another point.
for name in no_largest no_budget; do
  "$calibrate" $name.csv --profile base.json > $name.txt
  grep -q '^missing, if more fits than was measured' $name.txt || fail "$name: $(cat $name.txt)"
done
[ "$(grep -c 'if more fits' no_largest.txt)" -eq 2 ] || fail "no_largest: $(cat no_largest.txt)"
"$calibrate" points.csv --profile base.json | grep -q missing && fail "nothing is missing"
refused points.csv --profile base.json --fit-host
refused points.csv --profile base.json --max-batch 64
says 'max-batch requires .*check'
refused --profile base.json --check run.csv --max-batch 064
says '064 begins with a 0'
for n in 0 -1 x 1.5; do refused points.csv --profile base.json --check run.csv --max-batch "$n"; done
refused ms.csv --profile base.json
says 'ms.csv:2:18: expected seconds; decode, batch 1, context 128 takes about .* are these milliseconds'
refused us.csv --profile base.json
says 'are these microseconds'
refused no_prefill.csv --profile base.json
says 'no_prefill.csv:11:1: expected at least 3 different steps of the kind prefill near the 14 points .*, found none'
refused no_mixed.csv --profile base.json
says 'expected at least 2 different steps of the kind mixed near the 14 points .*, or --without-mixed, found none'
refused few.csv --profile base.json
says 'expected at least 4 different steps of the kind decode near the 14 points .*, found 3'
refused one_context.csv --profile base.json --fit all
says 'the longest is at least 4 times the shortest'
head='kind,prefill_tokens,prefill_history,decodes,decode_context,seconds\n'
refused_at 1:1 ''
refused_at 1:1 'kind,decodes,seconds\n'
refused_at 2:1 "$head"
refused_at 2:1 "${head}encode,0,0,1,128,0.01\n"
refused_at 2:18 "${head}decode,0,0,1,128,-0.01\n"
refused_at 2:18 "${head}decode,0,0,1,128,nan\n"
refused_at 2:18 "${head}decode,0,0,1,128,inf\n"
refused_at 2:18 "${head}decode,0,0,1,128,0\n"
refused_at 2:18 "${head}decode,0,0,1,128,\n"
refused_at 2:12 "${head}decode,0,0,0,128,0.01\n"
refused_at 2:12 "${head}decode,0,0,-1,128,0.01\n"
refused_at 2:12 "${head}decode,0,0,1.5,128,0.01\n"
refused_at 2:8 "${head}decode,5,0,1,128,0.01\n"
refused_at 2:17 "${head}decode,0,0,1,128\n"
refused_at 2:23 "${head}decode,0,0,1,128,0.01,7\n"
refused_at 3:1 "${head}decode,0,0,1,128,0.01\n\ndecode,0,0,1,128,0.01\n"
refused_at 2:1 'kind,batch,length,seconds\nmixed,1,1,0.1\n'
refused_at 1:12 'kind,batch,batch,seconds\n'
# One row in milliseconds among the others.
sed '9s/,[^,]*$/,8.9/' points.csv > row.csv
refused row.csv --profile base.json
says 'row.csv:9:19: expected about .* ms for prefill of 256 tokens after 0, as the other rows say'
printf 'arrival_s,prompt_tokens,output_tokens,measured_ttft_s,measured_e2e_s\n0,100,10,0.5,0.2\n' > bad_run.csv
refused --profile base.json --check bad_run.csv
says 'bad_run.csv:2:14: expected measured_e2e_s of at least measured_ttft_s = 0.5'
printf 'arrival_s,prompt_tokens,output_tokens\n0,100,10\n' > bad_run.csv
refused --profile base.json --check bad_run.csv
says 'a header with the column measured_ttft_s'
printf 'arrival_s,prompt_tokens,output_tokens,measured_ttft_s,measured_e2e_s\n0,100,10,-0.5,0.2\n' > bad_run.csv
refused --profile base.json --check bad_run.csv
says 'bad_run.csv:2:10: expected measured_ttft_s'
printf 'arrival_s,prompt_tokens,output_tokens,measured_ttft_s,measured_e2e_s\n0,100,10,0.5,1.2\n' > run1.csv
refused --profile base.json --check run1.csv --kv-blocks 2
says 'does not fit in 2 KV blocks'
cp base.json copy.json
code=0; "$calibrate" points.csv --profile base.json --out base.json > out.txt 2> err.txt || code=$?
[[ $code -eq 2 ]] && cmp base.json copy.json || fail "the profile is written over"
says 'out would write over base.json, which --profile reads'
mkdir folder
code=0
"$calibrate" points.csv --profile base.json --out folder > out.txt 2> err.txt || code=$?
[[ $code -eq 2 && ! -s out.txt && $(wc -l < err.txt) -eq 1 ]] || fail "a folder in place of a file"
echo "calibrate: all as it should be"
