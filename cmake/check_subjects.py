#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_subjects.py ROOT     check_subjects.py --self-test

Checks the subjects of the commits since START: "kv: share blocks between groups". The component comes first, then an
imperative, and 72 characters are the most. The check sees only some of the words that are no imperative. Merges are not
read, nor what a shallow clone lacks. Without a history nothing is checked.
"""

import re
import subprocess
import sys

START = "2026-11-28T19:00Z"  # earlier subjects keep no rule
SUBJECT = re.compile(r"[a-z][\w.]*(?:, [a-z][\w.]*)*: (?!(?:an?|the|one|no|what|its?|is|adds|added|fixe[sd])\b)[a-z]")


def wrong(subject):
    return len(subject) > 72 or not SUBJECT.match(subject)


def main(arguments):
    if arguments == ["--self-test"]:
        bad = ("Kv: share blocks", "share blocks", "kv: the blocks", "kv: fixed blocks", "kv: " + "share " * 12)
        good = ("kv: share blocks", "docs, sim: name quantities", "vllm: answer", "merge: " + "a" * 65)
        failed = [s for s in bad if not wrong(s)] + [s for s in good if wrong(s)]
    else:
        log = ["git", "-C", arguments[0], "log", "--no-merges", f"--since={START}", "--format=%s"]
        try:
            ran = subprocess.run(log, capture_output=True, text=True)
        except FileNotFoundError:
            ran = None
        if ran is None or ran.returncode != 0:
            print("subjects of commits are not checked: there is no history here")
            return 0
        failed = [s for s in ran.stdout.splitlines() if wrong(s)]
    for subject in failed:
        print(f'commit "{subject}": expected "component: imperative", at most 72 characters', file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
