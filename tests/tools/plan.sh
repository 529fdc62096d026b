#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The contract of plan: what it prints and writes, and that bad input is one message and exit code 2.

set -euo pipefail
[[ -n ${TESSERA_PLAN:-} ]] || exit 77
plan=$TESSERA_PLAN
fail() { echo "plan.sh: $*" >&2; exit 1; }
rm -rf ./*

# A sample of three kinds of request, and prices at which three stages pay.
python3 - <<'P'
with open("lengths.csv", "w") as f:
    f.write("arrival_s,prompt_tokens,output_tokens\n")
    for i in range(300):
        f.write(f",{(100, 1000, 9000)[i % 3] + i % 7},{10 + i % 5}\n")
P
cat > cost.json <<'P'
{"qoe": {"d0": 0.001, "d1": 1e-5, "d2": 1e-7, "d3": 0, "d4": 1e-6},
 "transfer": {"per_sequence": 0.001, "per_token": 1e-7}}
P
some=(--lengths lengths.csv --instances 6 --cost cost.json)
"$plan" "${some[@]}" > a.txt 2> a.err
[[ ! -s a.err ]] || fail "said: $(cat a.err)"
grep -q '300 requests, .* distinct lengths, 6 instances' a.txt || fail "no summary: $(cat a.txt)"
grep -q '^exact: quality ' a.txt || fail "no quality"
"$plan" "${some[@]}" --json > a.json
"$plan" "${some[@]}" --compare --json b.json > b.txt
for method in exact bucketed merge chain flat; do
  grep -q "^$method " b.txt || fail "--compare lacks $method"
  "$plan" "${some[@]}" --method "$method" --json > "$method.json" || fail "$method"
done
python3 - <<'P'
import json
def check(p, name):
    assert p["method"] == name
    s = p["stages"]
    assert s[0]["from"] == 0 and s[-1]["to"] is None
    assert all(x["to"] == y["from"] for x, y in zip(s, s[1:]))
    assert sum(x["instances"] for x in s) == 6 and sum(x["requests"] for x in s) == 300
    assert abs(sum(x["quality"] + x["transfer"] for x in s) - p["quality"]) <= 1e-9 * p["quality"]
a = json.load(open("a.json"))
check(a, "exact")
assert a["requests"] == 300 and a["instances"] == 6 and a["cost"]["qoe"]["d4"] == 1e-6
b = json.load(open("b.json"))
for name, p in zip("exact bucketed merge chain flat".split(), b["compare"], strict=True):
    check(p, name)
    check(json.load(open(name + ".json")), name)
    assert a["quality"] <= p["quality"] * (1 + 1e-12), name
assert b["stages"] == a["stages"] and len(b["compare"][3]["stages"]) == 6 and len(b["compare"][4]["stages"]) == 1
assert len(a["stages"]) >= 2
P
printf 'length\n5\n7\n7\n900\n' > plain.csv
"$plan" --lengths plain.csv --instances 2 | grep -q '4 requests, 3 distinct lengths' || fail "a plain column of lengths"
printf '\xef\xbb\xbflength\r\n5\r\n7\r\n7\r\n900' > plain.csv
"$plan" --lengths plain.csv --instances 2 | grep -q '4 requests, 3 distinct lengths' || fail "the same from another system"
"$plan" "${some[@]}" --instances 1 --instances 3 --json | grep -q '"instances": 3,' || fail "the last of an option counts"
# With next to nothing in flight no sequence is worth moving; a cut that none grows across is still free.
"$plan" "${some[@]}" --in-flight 0.01 --json > few.json
python3 -c 'import json; s = json.load(open("few.json"))["stages"]; assert len(s) > 1 and all(x["transfer"] == 0 for x in s)' ||
  fail "with next to nothing in flight: $(cat few.json)"

# With a trace: its load, from a replay, and whether stages pay there; what is not used is named.
python3 - <<'P'
with open("trace.csv", "w") as f:
    f.write("arrival_s,prompt_tokens,output_tokens,note\n")
    for i in range(400):
        f.write(f"{i * 0.2},{(100, 1000, 9000)[i % 3] + i % 7},{100 + i % 50},x\n")
P
"$plan" --trace trace.csv --instances 4 > trace.txt
"$plan" --trace trace.csv --instances 4 --json > trace.json
grep -q '^5 requests per second, [0-9.]* in flight when they are replayed' trace.txt || fail "no load: $(cat trace.txt)"
grep -q '^Stages .* here: the plan promises .* in replay, with cascade' trace.txt || fail "no verdict: $(cat trace.txt)"
grep -q "^Columns of trace.csv that are not used: 'note'$" trace.txt || fail "an unused column is not named: $(cat trace.txt)"
"$plan" --lengths trace.csv --instances 4 | grep -q "that are not used: 'note'" || fail "nor with --lengths"
python3 - <<'P'
import json
p = json.load(open("trace.json"))
assert abs(p["rate"] - 5) < 1e-9 and p["in_flight"] > 0 and p["gain"] >= 1 - 1e-9, p
names = [c["policy"] for c in p["check"]]
assert names == ["fcfs", "cascade", "cascade-steady"], names
# As many run as arrive in the time that one is served: Little's law, as far as a short run goes.
served = p["check"][0]["e2e"]["mean"] - p["check"][0]["ttft"]["mean"] / 2
assert 0.6 < p["in_flight"] / (p["rate"] * served) < 1.5, (p["in_flight"], p["rate"] * served)
P
"$plan" --trace trace.csv --instances 4 --json - > dash.json 2> dash.txt
python3 -c 'import json; assert json.load(open("dash.json"))["instances"] == 4' || fail "more than JSON: $(cat dash.json)"
grep -q '^exact: quality ' dash.txt || fail "no table beside JSON: $(cat dash.txt)"
if [[ -n ${TESSERA_REPLAY:-} ]]; then
  "$TESSERA_REPLAY" --trace trace.csv --instances 4 --policy fcfs,cascade,cascade-steady --json replayed.json > replayed.txt
  python3 - <<'P'
import json
for a, b in zip(json.load(open("trace.json"))["check"], json.load(open("replayed.json")), strict=True):
    assert a["ttft"] == b["ttft"] and a["normalized_latency"] == b["normalized_latency"], "replay says something else"
P
fi

refused() { # arguments
  local code=0
  "$plan" "$@" --json out.json > out.txt 2> err.txt || code=$?
  [[ $code -eq 2 ]] || fail "exit code $code, not 2: $*"
  [[ $(wc -l < err.txt) -eq 1 ]] || fail "not one line: $* : $(cat err.txt)"
  [[ ! -s out.txt ]] || fail "output in spite of an error: $*"
  [[ -z $(find . -name 'out.json*' -o -name '*.partial*') ]] || fail "left-overs: $*"
}
refused_at() { # line:column, content for printf
  printf "$2" > bad.csv
  refused --lengths bad.csv --instances 2
  grep -q "bad.csv:$1: expected" err.txt || fail "not at $1: $(cut -c1-200 err.txt)"
}
refused
refused --lengths lengths.csv
refused --instances 3
refused --lengths missing.csv --instances 3
refused --lengths lengths.csv --trace trace.csv --instances 3
refused --lengths lengths.csv --instances 3 --rate 3
refused --trace lengths.csv --instances 3
grep -q -- '--rate' err.txt || fail "the option is not named: $(cat err.txt)"
refused --trace trace.csv --instances 3 --rate 1e-14
grep -q 'a replay spans at most' err.txt || fail "a span: $(cat err.txt)"
refused --lengths lengths.csv --instances 03
refused "${some[@]}" --plot-format png
refused "${some[@]}" --profile h200-llama-3.1-8b
for n in 0 -1 x 1.5 5000 99999999999999999999 ''; do refused --lengths lengths.csv --instances "$n"; done
refused "${some[@]}" --method nonsense
refused "${some[@]}" --method ''
refused "${some[@]}" --cost ''
refused "${some[@]}" --profile=
refused --lengths lengths.csv --instances 3 --profile nonsense
for x in 0 -1 nan inf 1e300 ''; do refused "${some[@]}" --in-flight "$x"; done
code=0; "$plan" "${some[@]}" --json missing/folder/x.json > out.txt 2> err.txt || code=$?
[[ $code -eq 2 && ! -s out.txt && $(wc -l < err.txt) -eq 1 ]] || fail "an unwritable file"
refused_at 1:1 ''
refused_at 1:1 'a,b\n1,2\n'
refused_at 2:1 'prompt_tokens,output_tokens\n'
refused_at 2:1 'prompt_tokens,output_tokens\n-1,3\n'
refused_at 2:1 'length\n'
refused_at 3:1 'length\n5\n0\n'
refused_at 2:1 'length\n-5\n'
refused_at 2:1 'length\n5x\n'
refused_at 3:1 'length\n5\n\n7\n'
printf 'length\n%s' "$(yes 1000000000 | head -20)" > bad.csv
refused --lengths bad.csv --instances 2
grep -q 'requests x longest^2' err.txt || fail "lengths that do not add up: $(cat err.txt)"
for json in '' '{' '[]' '{"qoe": 1}' '{"qoe": {"d0": 1}, "transfer": {}}'; do
  printf '%s' "$json" > bad.json
  refused --lengths lengths.csv --instances 3 --cost bad.json
  grep -q '^plan: bad.json:1:[0-9]*: expected' err.txt || fail "no place: $(cat err.txt)"
done

# Hashes of 16 tokens each, in a trace and in a sample of lengths.
for i in 0 1 2 3; do
  printf '{"arrival_s": %s, "prompt_tokens": 33, "output_tokens": 5, "hash_ids": [7, 8, %s]}\n' "$i" "1$i"
done > hashes.jsonl
"$plan" --trace hashes.jsonl --instances 4 --hash-tokens 16 | grep -q '^hashes.jsonl: 4 requests, ' || fail "--hash-tokens"
"$plan" --lengths hashes.jsonl --instances 4 --hash-tokens 16 | grep -q '^hashes.jsonl: 4 requests, ' || fail "of lengths"
for input in --trace --lengths; do
  refused "$input" hashes.jsonl --instances 4
  refused "$input" hashes.jsonl --instances 4 --hash-tokens 0
done
printf 'length\n5\n7\n' > plain.csv
for input in "--trace trace.csv" "--lengths trace.csv" "--lengths plain.csv"; do
  refused $input --instances 4 --hash-tokens 16
  grep -q -- '--hash-tokens goes with a .*trace that has hash_ids' err.txt || fail "$input: $(cat err.txt)"
done

printf 'arrival_s,prompt_tokens,output_tokens\n1,10,5\n1,10,5\n' > once.csv
refused --trace once.csv --instances 3
grep -q 'no load to plan for' err.txt || fail "all at once: $(cat err.txt)"
cp lengths.csv copy.csv
code=0; "$plan" --lengths lengths.csv --instances 3 --json lengths.csv > out.txt 2> err.txt || code=$?
[[ $code -eq 2 ]] && cmp lengths.csv copy.csv || fail "the lengths are written over"
if command -v gnuplot > /dev/null; then
  refused --lengths lengths.csv --instances 3 --plot -
  refused --lengths lengths.csv --instances 3 --plot x.gif
  "$plan" "${some[@]}" --plot "a folder" > /dev/null
  tail -c 20 "a folder/plan.svg" | grep -q '</svg>' || fail "no whole SVG"
  "$plan" "${some[@]}" --plot layout.png > plot.txt
  [[ $(head -c 8 layout.png | od -An -tx1 | tr -d ' \n') == 89504e470d0a1a0a ]] || fail "no PNG"
  grep -qx 'layout.png' plot.txt || fail "the picture is not named"
  rm layout.png && gnuplot layout.gp && [[ -s layout.png ]] || fail "layout.gp does not draw again"
  [[ -z $(find . -name '*.partial*') ]] || fail "left-overs"
fi
echo "plan.sh: ok"
