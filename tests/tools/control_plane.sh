#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# control_plane: telemetry in, actions out; what is wrong is said with file, line and column.
set -euo pipefail
[[ -n ${TESSERA_CONTROL_PLANE:-} ]] || exit 77

fail() { echo "control_plane.sh: $*" >&2; exit 1; }
refused() {  # refused TEXT LINE...: exit code 2, one line on stderr that contains TEXT
  local text=$1 code=0
  shift
  printf '%s\n' "$@" >bad.jsonl
  "$TESSERA_CONTROL_PLANE" bad.jsonl >refused.out 2>refused.err || code=$?
  [[ $code == 2 ]] || fail "$* exited with $code, not 2"
  [[ $(wc -l <refused.err) == 1 ]] || fail "$* did not say one line: $(cat refused.err)"
  grep -qF -- "$text" refused.err || fail "$* did not say '$text' but: $(cat refused.err)"
}

cat >telemetry.jsonl <<'END'
{"worker": 0, "role": "prefill", "queue": [{"prompt": 900, "computed": 256}, {"prompt": 800}]}
{"worker": 1, "role": "prefill", "queue": [{"prompt": 900}]}
{"request": "a", "prompt": 1200}
{"request": "b", "prompt": 100}

{"worker": 2, "role": "decode", "total": 1000, "free": 40, "sequences": [{"id": 7, "blocks": 36, "bytes": 4096}, {"id": 8, "blocks": 90, "bytes": 9000}]}
{"worker": 3, "role": "decode", "total": 1000, "free": 1000}
{"worker": 4, "role": "mixed", "total": 1000, "free": 1000}
{"epoch": 1}
{"worker": 4, "role": "prefill", "elastic": true}
{"request": "c", "prompt": 10}
END
cat >want.jsonl <<'END'
"request":"a","worker":1
"request":"b","worker":0
{"epoch":1,"worker":4,"from":"mixed","to":"prefill"}
{"epoch":1,"move":7,"from":2,"to":3,"blocks":36,"bytes":4096}
"request":"c","worker":4,"phi":1.0}
END
"$TESSERA_CONTROL_PLANE" telemetry.jsonl >actions.jsonl
[[ $(wc -l <actions.jsonl) == $(wc -l <want.jsonl) ]] || fail "not five actions: $(cat actions.jsonl)"
while read -r want <&3 && read -r got <&4; do
  [[ $got == *"$want"* ]] || fail "expected $want, got $got"
done 3<want.jsonl 4<actions.jsonl
"$TESSERA_CONTROL_PLANE" <telemetry.jsonl | cmp - actions.jsonl || fail "the standard input gives something else"

refused 'bad.jsonl:1:12: expected a whole number from 0 to 63' '{"worker": 64, "role": "decode"}'
refused 'bad.jsonl:2:23: expected "prefill"' '{"epoch": 1}' '{"worker": 1, "role": "chef"}'
refused 'bad.jsonl:1:1: expected "prefill"' '{"worker": 1}'
refused 'bad.jsonl:1:88: expected a whole number from 1' \
  '{"worker": 1, "role": "decode", "total": 9, "free": 1, "sequences": [{"id": 1,"blocks":0,"bytes":4}]}'
refused "as \"free\", found '10'" '{"worker": 1, "role": "decode", "total": 9, "free": 10}'
refused 'as "prompt", found none' '{"request": 1}'
refused 'bad.jsonl:1:14: expected a JSON object' '{"epoch": 1, }'
refused 'expected a JSON object' '[1]'
refused 'expected an object with "worker"' '{"job": 1}'
deep=$(printf '[%.0s' $(seq 20000))$(printf ']%.0s' $(seq 20000))
refused 'bad.jsonl:1:1: expected arrays and objects at most 512 deep' "{\"request\": $deep, \"prompt\": 10}"
for words in . '--block-size 016 telemetry.jsonl' '--workers x telemetry.jsonl'; do
  code=0
  "$TESSERA_CONTROL_PLANE" $words >refused.out 2>refused.err || code=$?
  [[ $code == 2 && $(wc -l <refused.err) == 1 ]] || fail "$words exited with $code: $(cat refused.err)"
done
if [[ -e /dev/full ]]; then
  code=0
  "$TESSERA_CONTROL_PLANE" telemetry.jsonl >/dev/full 2>refused.err || code=$?
  [[ $code == 2 ]] && grep -q 'cannot write to standard output' refused.err || fail "actions are lost: $code"
fi
"$TESSERA_CONTROL_PLANE" --help | grep -q -- --workers || fail "no help"
code=0
"$TESSERA_CONTROL_PLANE" nowhere.jsonl 2>refused.err || code=$?
[[ $code == 2 ]] || fail "a missing file exited with $code"
grep -q 'nowhere.jsonl: expected a readable file' refused.err || fail "$(cat refused.err)"
echo "control_plane.sh: ok"
