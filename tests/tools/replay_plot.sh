#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# replay --plot: pictures in two formats, and the scripts that drew them.
set -euo pipefail
[[ -n ${TESSERA_REPLAY:-} ]] || exit 77
command -v gnuplot >/dev/null || { echo "replay_plot.sh: skipped: gnuplot is not installed"; exit 77; }
rm -rf ./*

fail() { echo "replay_plot.sh: $*" >&2; exit 1; }
some=(--workload reasoning-chat --requests 300 --instances 2 --rate 4 --policy fcfs,pascal)
"$TESSERA_REPLAY" "${some[@]}" --plot "a folder/plots" >svg.txt 2>svg.err || fail "no svg"
! grep -qv '^[^:]*: [0-9]* %' svg.err || fail "said: $(cat svg.err)"
"$TESSERA_REPLAY" "${some[@]}" --plot png --plot-format png >png.txt || fail "no png"
for name in ttft_cdf tpot_cdf tail_ttft timeline; do
  head -c 200 "a folder/plots/$name.svg" | grep -q '<?xml' || fail "$name.svg is no SVG"
  tail -c 20 "a folder/plots/$name.svg" | grep -q '</svg>' || fail "$name.svg is not complete"
  for policy in fcfs pascal; do grep -q "$policy" "a folder/plots/$name.svg" || fail "$name.svg lacks $policy"; done
  [[ $(head -c 8 "png/$name.png" | od -An -tx1 | tr -d ' \n') == 89504e470d0a1a0a ]] || fail "$name.png is no PNG"
  grep -qx "a folder/plots/$name.svg" svg.txt || fail "$name.svg is not named"
  # The script stands alone.
  (cd png && rm "$name.png" && gnuplot "$name.gp" && [[ -s $name.png ]]) || fail "$name.gp does not draw again"
done
[[ -z $(find . -name '*.partial*') ]] || fail "left-overs"
echo "replay_plot.sh: ok"
