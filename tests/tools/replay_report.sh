#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# replay --report: one page that needs nothing beside it; opened in a headless browser where there is one.
set -euo pipefail
[[ -n ${TESSERA_REPLAY:-} ]] || exit 77
fail() { echo "replay_report.sh: $*" >&2; exit 1; }
rm -rf ./*

some=(--workload reasoning-chat --requests 300 --instances 2 --policy fcfs,pascal --slo ttft_p99=30)
"$TESSERA_REPLAY" "${some[@]}" --rate 4 --report "a page" > one.txt 2> one.err || fail "no page: $(cat one.err)"
! grep -qv '^[^:]*: [0-9]* %' one.err || fail "said: $(cat one.err)"
"$TESSERA_REPLAY" "${some[@]}" --rate 4 --explain 7 --report why > why.txt || fail "no page that explains"
grep -q '<h2>Why</h2>' why/index.html && grep -q 'pascal, request 7:' why/index.html || fail "the page does not explain"
grep -q '<h2>Why</h2>' "a page/index.html" && fail "a page explains what nobody asked"
grep -qx 'a page/index.html' one.txt || fail "the page is not named: $(cat one.txt)"
"$TESSERA_REPLAY" "${some[@]}" --sweep rate=2,4 --report sweep > sweep.txt || fail "no page of a sweep"
printf 'prompt_tokens,output_tokens,<b>\n10,20,1\n10,20,1\n' > '<i>&.csv'
"$TESSERA_REPLAY" --trace '<i>&.csv' --rate 1 --policy fcfs --seeds 2 --report odd > odd.txt 2> odd.err || fail "no page of odd names"
! grep -qv '^[^:]*: [0-9]* %' odd.err || fail "said: $(cat odd.err)"
python3 - <<'P'
import html.parser, os, shutil
class page(html.parser.HTMLParser):
    void = {"meta", "br", "img", "link"}
    def __init__(self, name):
        super().__init__()
        self.tags, self.ids, self.open, self.text = [], [], [], ""
        self.feed(open(os.path.join(name, "index.html"), encoding="utf-8").read())
        self.close()
        assert not self.open, self.open
    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.void: self.open.append(tag)
        for key, value in attributes:
            # Nothing is fetched: links lead into the page alone.
            if key in ("href", "src", "xlink:href", "data", "action"): assert value.startswith("#"), (tag, key, value)
            if key == "id": self.ids.append(value)
    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.void: self.open.pop()
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data): self.text += data
drawn = shutil.which("gnuplot") is not None
one, sweep, odd = page("a page"), page("sweep"), page("odd")
for p in one, sweep, odd:
    assert not {"script", "link", "img", "iframe", "object", "i", "b"} & set(p.tags), p.tags
    assert len(set(p.ids)) == len(p.ids), "names that come twice"
    assert p.tags.count("svg") == (0 if not drawn else 1 if p is sweep else 4 if p is one else p.tags.count("svg")), p.tags.count("svg")
    assert "version" in p.text and "h100-96gb-qwen-32b" in p.text
for word in "fcfs", "pascal", "TTFT p99", "least-load", "meet the SLO", "ttft_p99=30", "reasoning-chat":
    assert word in one.text, word
# What was run comes first; a sweep does not say that it ran at one value.
assert one.text.index("300 requests") < one.text.index("Numbers") and "2 x h100-96gb-qwen-32b" in one.text
assert "Goodput" in sweep.text and "the objectives" in sweep.text
assert "'<b>'" in odd.text and "<i>&.csv" in odd.text and "\u00b1" in odd.text
P
code=0; "$TESSERA_REPLAY" "${some[@]}" --policy nonsense --report nothing > out.txt 2> err.txt || code=$?
[[ $code -eq 2 && ! -e nothing ]] || fail "a page in spite of an error"
[[ -z $(find . -name '*.partial*') ]] || fail "left-overs"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $browser ]]; then
  echo "replay_report.sh: not opened: there is no Chromium here"
else
  "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/a page/index.html" \
    > dom.html 2> browser.err || fail "the browser fails: $(tail -3 browser.err)"
  grep -q '<h2>Numbers</h2>' dom.html && grep -q '</html>' dom.html || fail "the browser shows something else"
  [[ $(grep -c '<svg' dom.html) -eq $(grep -c '<svg' "a page/index.html") ]] || fail "the browser lacks pictures"
fi
echo "replay_report.sh: ok"
