#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# replay on traces of production services, where they lie beside the sources.
set -euo pipefail
[[ -n ${TESSERA_REPLAY:-} ]] || exit 77
data=$TESSERA_SOURCE_DIR/../shared/data
rm -rf ./*

fail() { echo "replay_traces.sh: $*" >&2; exit 1; }
ran=0
# replayed FILE ROWS ARGS...: every request ends, and the run repeats.
replayed() {
  local file=$data/$1 rows=$2
  shift 2
  if [[ ! -r $file ]]; then
    echo "replay_traces.sh: $file is not here"
    return
  fi
  "$TESSERA_REPLAY" --trace "$file" --policy fcfs,rr,pascal "$@" --csv a.csv >a.txt || fail "$file failed"
  "$TESSERA_REPLAY" --trace "$file" --policy fcfs,rr,pascal "$@" --csv b.csv >b.txt || fail "$file failed"
  cmp a.txt b.txt && cmp a.csv b.csv || fail "$file does not repeat"
  for policy in fcfs rr pascal; do
    [[ $(grep -c "^$policy,[0-9]*,completed," a.csv) == "$rows" ]] || fail "$file: $policy did not complete $rows requests"
  done
  ran=$((ran + 1))
}
replayed azure_llm_2023_conv.csv 1500 --requests 1500
replayed azure_llm_2023_conv.csv 1500 --requests 1500 --rate-scale 4 --instances 2
replayed servegen_r1_quiet1h.csv 1500 --requests 1500
replayed sharegpt_8k_lengths.csv 500 --requests 500 --rate 6
replayed mooncake_synthetic_hashes.jsonl 800 --requests 800 --profile h200-llama-3.1-8b
replayed raw/azure_2023_head.csv 200 --rate-scale 2
[[ $ran -gt 0 ]] || { echo "replay_traces.sh: skipped: no traces in $data"; exit 77; }
echo "replay_traces.sh: $ran replays ok"
