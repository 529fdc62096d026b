#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Real steps and runs, measured by others, which docs/results/fidelity names. Checked are the errors of the steps other
# than the 14 points that are fitted, and a table of prompts past its end. Runs of vLLM are checked from one constant.
# The data are not part of this project: without them, in ../shared/data/measured, this is skipped.

set -euo pipefail
[[ -n ${TESSERA_CALIBRATE:-} ]] || exit 77
calibrate=$TESSERA_CALIBRATE
data=$TESSERA_SOURCE_DIR/../shared/data/measured
if [[ ! -e $data/steps_a100_sxm_llama-3.1-8b.csv ]]; then
  echo "skipped: there are no measured steps in $data"
  exit 77
fi
fail() { echo "calibrate_measured.sh: $*" >&2; exit 1; }
rm -rf ./*

sets="a100-80gb-llama-3.1-8b:a100_sxm_llama-3.1-8b h100-80gb-llama-3.1-8b:h100_sxm_llama-3.1-8b
      h100-80gb-qwen2.5-32b:h100_sxm_qwen2.5-32b rtx4090-llama-3.1-8b:rtx4090_llama-3.1-8b
      rtxpro6000-llama-3.1-8b:rtxpro6000_llama-3.1-8b"
for s in $sets; do
  "$calibrate" "$data/steps_${s#*:}.csv" --profile "${s%%:*}" --fit none --json "${s%%:*}.plain.json" > /dev/null
  "$calibrate" "$data/steps_${s#*:}.csv" --profile "${s%%:*}" --out "${s%%:*}.json" --json "${s%%:*}.errors.json" > /dev/null
done

# A table that ends at 2,048 tokens, held against longer prompts.
python3 - "$data" $sets <<'P'
import csv, json, sys
data = sys.argv[1]
for s in sys.argv[2:]:
    name, file = s.split(":")
    if "rtx" in name: continue  # they have no longer prompts
    rows = [r for r in csv.DictReader(open(f"{data}/steps_{file}.csv")) if r["kind"] == "prefill" and r["batch"] == "1"]
    p = json.load(open(f"{name}.json"))
    p["measured"] = {"prefill": [{"length": int(r["length"]), "seconds": float(r["seconds"])} for r in rows
                                 if int(r["length"]) <= 2048]}
    json.dump(p, open(f"{name}.table.json", "w"))
    # The same with nothing known of attention: the rate of matrix products at 60 % of the peak.
    plain = json.load(open(f"{name}.json"))
    del plain["terms"]
    plain["gpu"].update(flops_efficiency=0.6, flops=312e12 if name.startswith("a100") else 989e12)
    plain["measured"] = p["measured"]
    json.dump(plain, open(f"{name}.plain_table.json", "w"))
    with open(f"{name}.long.csv", "w") as f:
        f.write("kind,batch,length,seconds\n")
        for r in rows:
            if int(r["length"]) > 2048: f.write(f"prefill,1,{r['length']},{r['seconds']}\n")
P
for s in a100-80gb-llama-3.1-8b h100-80gb-llama-3.1-8b h100-80gb-qwen2.5-32b; do
  for table in table plain_table; do
    "$calibrate" "$s.long.csv" --profile "./$s.$table.json" --fit none --json "$s.$table.errors.json" > "$s.$table.txt"
  done
done

# One constant from one run, for both.
for run in rtxpro6000:33000:128 rtx4090:2588:256; do
  IFS=: read -r device blocks batch <<< "$run"
  engine=(--kv-blocks "$blocks" --max-batch "$batch" --token-budget 2048)
  "$calibrate" --profile "./$device-llama-3.1-8b.json" --check "$data/vllm_0.19_run_${device}_llama-3.1-8b.csv" \
    "${engine[@]}" --fit-host --out "$device.host.json" --json "$device.fitted.json" > /dev/null
done
python3 - <<'P'
import json
hosts = {d: json.load(open(f"{d}.host.json"))["terms"]["host_step_seconds"] for d in ("rtxpro6000", "rtx4090")}
for of, other in (("rtxpro6000", "rtx4090"), ("rtx4090", "rtxpro6000")):
    p = json.load(open(f"{of}.host.json"))
    p["terms"]["host_step_seconds"] = hosts[other]
    json.dump(p, open(f"{of}.other.json", "w"))
P
"$calibrate" --profile ./rtxpro6000.other.json --check "$data/vllm_0.19_run_rtxpro6000_llama-3.1-8b.csv" \
  --kv-blocks 33000 --max-batch 128 --json rtxpro6000.other.errors.json > /dev/null
"$calibrate" --profile ./rtx4090.other.json --check "$data/vllm_0.19_run_rtx4090_llama-3.1-8b.csv" \
  --kv-blocks 2588 --max-batch 256 --json rtx4090.other.errors.json > /dev/null

python3 - <<'P'
import json
wrong = []
def most(name, kind, error, bound):
    print(f"{name:30} {kind:26} {100 * error:6.2f} %, at most {100 * bound:g}")
    if error > bound: wrong.append(name)
sets = ("a100-80gb-llama-3.1-8b h100-80gb-llama-3.1-8b h100-80gb-qwen2.5-32b rtx4090-llama-3.1-8b "
        "rtxpro6000-llama-3.1-8b").split()
bounds = {"decode": 0.02, "prefill": 0.04, "prefill with history": 0.06, "mixed, of what fits in KV": 0.08, "mixed": 0.095}
for s in sets:
    for kind, e in json.load(open(f"{s}.errors.json"))["held_out"].items(): most(s, kind, e["mape"], bounds[kind])
for s in sets:
    plain = json.load(open(f"{s}.plain.json"))["held_out"]
    for kind, bound in (("decode", 0.06), ("prefill", 0.12)): most(s + ", built in", kind, plain[kind]["mape"], bound)
for s in sets[:3]:
    for table, bound in (("table", 0.06), ("plain_table", 0.10)):
        most(f"{s}, past a {table}", "prefill", json.load(open(f"{s}.{table}.errors.json"))["held_out"]["prefill"]["mape"], bound)
for d in ("rtxpro6000", "rtx4090"):
    c = json.load(open(f"{d}.other.errors.json"))["check"]
    most(f"{d}, the other run's constant", "e2e", abs(c["e2e"]["mean"]["error"]), 0.05)
assert not wrong, wrong
P
