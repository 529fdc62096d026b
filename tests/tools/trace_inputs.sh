#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What replay makes of files as tools and services write them, where they lie beside the sources.
set -euo pipefail
[[ -n ${TESSERA_REPLAY:-} ]] || exit 77
inputs=$TESSERA_SOURCE_DIR/../shared/inputs
[[ -d $inputs ]] || { echo "trace_inputs.sh: skipped: $inputs is not here"; exit 77; }
rm -rf ./*

fail() { echo "trace_inputs.sh: $*" >&2; exit 1; }
ran=0
# run FILE ARGS...: into out.txt and err.txt; the exit code in `code`. Fails where the file is not here.
run() {
  local file=$inputs/$1
  shift
  [[ -r $file ]] || return 1
  code=0
  "$TESSERA_REPLAY" --trace "$file" --policy fcfs --instances 1 "$@" >out.txt 2>err.txt || code=$?
  ran=$((ran + 1))
}
# reads FILE WHAT REMARK [ARGS...]: the file is read, and REMARK is said. WHAT: how many requests, at what rate.
reads() {
  local file=$1 what=$2 remark=$3
  shift 3
  run "$file" "$@" || return 0
  [[ $code == 0 ]] || fail "$file: exit code $code: $(cat err.txt)"
  grep -qF -- "$what" out.txt || fail "$file: not '$what': $(head -1 out.txt)"
  grep -qF -- "$remark" out.txt || fail "$file: not '$remark': $(cat out.txt)"
}
# refuses FILE MESSAGE [ARGS...]: it is refused in one line, with exit code 2.
refuses() {
  local file=$1 message=$2
  shift 2
  run "$file" "$@" || return 0
  [[ $code == 2 && $(wc -l <err.txt) == 1 ]] || fail "$file: exit code $code: $(cat err.txt)"
  grep -qF -- "$message" err.txt || fail "$file: not '$message': $(cat err.txt)"
}

twelve='12 requests, 0.581 per second'
reads iso_own.csv '400 requests, 1.816 per second' ''
reads service_log.csv '59 requests, 1.595 per second' "not used: 'request_id', 'user_id', 'model', 'latency_ms', 'note'"
reads n12_unsorted.csv "$twelve" 'out of order, and are sorted by arrival: 3'
reads n13_epoch_ms.csv "$twelve" ''
reads n15_crlf_cr.csv "$twelve" ''
reads n16_case.csv "$twelve" ''
refuses n13c_servegen_ms.csv ':2:1: expected timestamp in a unit that can be told: say --time-unit s'
reads n13c_servegen_ms.csv "$twelve" '' --time-unit ms
reads bailian.jsonl '12 requests, in 4 sessions' "not used: 'type', 'turn'"
reads aiperf_mooncake_sessions.jsonl '12 requests, in 4 sessions' ''
reads aiperf_profile_export.jsonl "$twelve" ''
reads guidellm_benchmarks.json "$twelve" "'request_latency'"
reads litellm_spend_logs.csv "$twelve" "'session_id'"
reads litellm_spend_logs.json "$twelve" "'session_id'"
reads otel_spans_otlp.json "$twelve" "'traceId'"
reads vllm_append.json "$twelve" 'holds 2 runs: run 2 is read (--run N)'
reads vllm_append.json "$twelve" 'holds 2 runs: run 1 is read (--run N)' --run 1
refuses vllm_append.json '--run is from 1 to 2' --run 3
for file in llmperf_individual_responses.json sglang_bench_details.jsonl sglang_bench_two_runs.jsonl; do
  refuses $file 'has no arrivals: name a --rate'
  reads $file '12 requests, ' '' --rate 1
done
refuses vllm_summary_only.json ':1:1: expected requests one by one (run vLLM'
refuses sglang_bench_summary.jsonl '--output-details'
refuses genai_perf_profile_export.json "genai-perf's profile export has none"
refuses openai_usage_export_small.csv ':1:1: expected requests one by one (these are sums of many requests'
refuses openai_usage_export_small.csv ':1:1: expected requests one by one' --rate 2
refuses n25_binary.parquet 'a Parquet file: save it as CSV'
refuses mi-tp8.json ':1:1: expected an object with the columns prompt_tokens and output_tokens, or those of'
if run n08_gz.csv.gz; then
  # With zlib it is read.
  if [[ $code == 0 ]]; then
    grep -qF "$twelve" out.txt || fail "gzip: $(head -1 out.txt)"
    head -c 100 "$inputs/n08_gz.csv.gz" >cut.gz
    code=0
    "$TESSERA_REPLAY" --trace cut.gz --policy fcfs >out.txt 2>err.txt || code=$?
    [[ $code == 2 ]] && grep -qF 'cut.gz:1:101: expected a whole gzip file' err.txt || fail "a cut gzip file: $(cat err.txt)"
  else
    grep -qF 'a gzip file: unpack it first' err.txt || fail "gzip: $(cat err.txt)"
  fi
fi
[[ $ran -gt 0 ]] || { echo "trace_inputs.sh: skipped: no files in $inputs"; exit 77; }
echo "trace_inputs.sh: $ran runs ok"
