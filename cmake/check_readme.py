#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_readme.py ROOT [--self-test]

Checks README.md and docs/index.md under ROOT.

Numbers: each number in a paragraph, list item or table row must stand in a file that the same paragraph, item or row
links to. If the link names a heading, the number must stand in that section. `8,000` and `8000` are the same number.
Not checked: code, and numbers that are part of a name, such as C++20 or H100. Pictures are no sources.

README.md alone: it has at most WORDS words. In its first LINES lines are the commands that install it (INSTALL) and the
picture of the parts. These lines also have at least FACTS paragraphs, items or rows with a number.

--self-test: README.md passes, and every change that the check is for makes it fail. Each number is altered, each link
to a source is removed, words are added, and each part of the first lines is removed.
Exit codes: 0 all is well, 1 something is wrong, 2 misuse.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from check_links import OUTSIDE, headings, without_code, without_comments  # noqa: E402

WORDS = 900
LINES = 25
FACTS = 3
INSTALL = ("pip install ./python", "cmake --preset headers && cmake --install build/headers", "script/demo --trace")
PICTURE = "](docs/parts.svg)"

NUMBER = re.compile(r"(?<![A-Za-z0-9_.])\d+(?:[.,]\d+)*")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)")


def numbers_of(text):
    """The numbers of a text, without separators of thousands."""
    return [n.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", n) else n for n in NUMBER.findall(text)]


def units_of(text):
    """(line number, text) of each heading, paragraph, list item and table row."""
    text = without_comments(text)
    unit, first = [], 0
    for number, line in enumerate([*without_code(text), ""], 1):
        begins = re.match(r"\s*([-*|#]|\d+\. )", line)
        if unit and (not line.strip() or begins or unit[-1].lstrip().startswith(("|", "#"))):
            yield first, "\n".join(unit)
            unit = []
        if line.strip():
            if not unit:
                first = number
            unit.append(re.sub(r"^(\s*)\d+\. ", r"\1", line))


def visible(unit):
    """What a reader sees of a unit, without code and names of languages."""
    text = LINK.sub(lambda m: m.group(2), unit)
    return re.sub(r"C\+\+\d+", "", re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL))


def sources_of(unit):
    """The files of the project, with their headings, that a unit links to."""
    return [m.group(3) for m in LINK.finditer(unit) if not m.group(1) and not OUTSIDE.match(m.group(3))]


def section(path, anchor):
    """The text of a file, or of a section of it. Empty if there is none."""
    if os.path.isdir(path):
        path = os.path.join(path, "README.md")
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if not anchor:
        return text
    found = list(headings(without_code(text)))
    for place, (first, level, name) in enumerate(found):
        if name == anchor:
            end = next((line for line, depth, _ in found[place + 1 :] if depth <= level), None)
            return "\n".join(text.split("\n")[first:end])
    return ""


def number_errors(folder, name, text):
    """What is wrong with the numbers of a page that lies in a folder, and how many numbers it has."""
    errors, checked = [], 0
    for line, unit in units_of(text):
        wanted = numbers_of(visible(unit))
        sources = sources_of(unit)
        found = set()
        for source in sources if wanted else []:
            path, _, anchor = source.partition("#")
            found.update(numbers_of(section(os.path.join(folder, path), anchor)))
        checked += len(wanted)
        for number in wanted:
            if not sources:
                errors.append(f"{name}:{line}: {number} has no source: link to the page that has it")
            elif number not in found:
                errors.append(f"{name}:{line}: {number} is not in {', '.join(sources)}")
    return errors, checked


def form_errors(text):
    """What is wrong with the form of README.md."""
    errors = []
    words = len(text.split())
    if words > WORDS:
        errors.append(f"README.md has {words} words; at most {WORDS} are allowed")
    head = "\n".join(text.split("\n")[:LINES])
    lines = [line.strip() for line in head.split("\n")]
    for command in INSTALL:
        if not any(line.startswith(command) for line in lines):
            errors.append(f"README.md: no line of the first {LINES} begins with `{command}`")
    if PICTURE not in head:
        errors.append(f"README.md: the first {LINES} lines lack the picture of the parts, {PICTURE[2:-1]}")
    facts = sum(1 for _, unit in units_of(head) if numbers_of(visible(unit)) and sources_of(unit))
    if facts < FACTS:
        errors.append(f"README.md: the first {LINES} lines have {facts} measured facts with a link; {FACTS} are wanted")
    return errors


def self_test(root, text):
    """What the check does not see. README.md must be right."""
    missed = []

    def must_fail(what, changed):
        if changed == text:
            missed.append(f"{what}: nothing was changed")
        elif not number_errors(root, "README.md", changed)[0] and not form_errors(changed):
            missed.append(f"{what}: not seen")

    lines = text.split("\n")
    altered = 0
    for first, unit in units_of(text):
        if not numbers_of(visible(unit)):
            continue
        size = unit.count("\n") + 1

        def put(new, at=first - 1, size=size):
            return "\n".join([*lines[:at], *new.split("\n"), *lines[at + size :]])

        shown = visible(unit)
        for number in dict.fromkeys(NUMBER.findall(shown)):
            for wrong in (f"98765{number}", f"{number}98765"):
                new = re.sub(rf"(?<![\w.]){re.escape(number)}(?![\w]|[.,]\d)", wrong, unit)
                if visible(new) != shown:
                    altered += 1
                    must_fail(f"README.md:{first}: {number} as {wrong}", put(new))
        must_fail(f"README.md:{first}: no links", put(LINK.sub(lambda m: m.group(2), unit)))
    if not altered:
        missed.append("README.md has no number that could be altered")
    must_fail(f"{WORDS} words more", text + " word" * WORDS)
    for part in (*INSTALL, PICTURE):
        must_fail(f"without {part}", text.replace(part, "", 1))
    must_fail("first lines later", "\n" * LINES + text)
    # A section is less than its page, and a longer number is another number.
    page = os.path.join(root, "docs", "results", "vllm.md")
    whole, part = section(page, ""), section(page, "time-in-the-scheduler")
    if not part or len(part) >= len(whole) or part not in whole:
        missed.append("a section is not a part of its page")
    if numbers_of("13.8 us, 3,892 us, 0.32.0") != ["13.8", "3892", "0.32.0"]:
        missed.append("numbers are read wrongly")
    return missed, altered


def main(arguments):
    wants_test = "--self-test" in arguments
    rest = [a for a in arguments if a != "--self-test"]
    if len(rest) != 1 or rest[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    root = os.path.abspath(rest[0])
    pages = {}
    for name in ("README.md", os.path.join("docs", "index.md")):
        with open(os.path.join(root, name), encoding="utf-8") as f:
            pages[name] = f.read()
    errors, checked = form_errors(pages["README.md"]), 0
    for name, text in pages.items():
        wrong, count = number_errors(os.path.dirname(os.path.join(root, name)), name, text)
        errors += wrong
        checked += count
    if wants_test and not errors:
        errors, checked = self_test(root, pages["README.md"])
    for error in errors:
        print(error, file=sys.stderr)
    if not errors:
        print(f"{checked} altered numbers are seen" if wants_test else f"{checked} numbers stand in their sources")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
