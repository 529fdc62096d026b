#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_guides.py ROOT [--self-test]

Checks the guides, docs/*.md under ROOT, and other pages (FOLDERS, OTHERS).

Length: a guide has at most WORDS words, code and tables included.
Pictures: a guide has at least one, except the pages that are tables alone (TABLES).
Words: no page uses a word for people (PEOPLE) for requests and programs. Not checked: code, targets of
links, and what stands in double quotes.
Cells: a table cell has at most CELL characters. Not counted: targets of links. Not checked: lines in code.
Sentences: check_words.py says what is wrong with one, by the rule for comments. Headings and tables are not read.

--self-test: the guides pass, and every change that the check is for makes a guide fail.
Exit codes: 0 all is well, 1 something is wrong, 2 misuse.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from check_links import without_code, without_comments  # noqa: E402
from check_words import comment_errors  # noqa: E402

WORDS = 2500
CELL = 160
TABLES = ("docs/index.md", "docs/terms.md", "docs/vllm_models.md", "docs/vllm_tests.md")
FOLDERS = ("docs/design", "examples")
OTHERS = ("README.md", "CHANGELOG.md", "python/README.md")
PEOPLE = "who whom whose whoever whomever nobody anybody everybody somebody he him his".split()

PICTURE = re.compile(r"!\[[^\]]+\]\([^)\s]+\.(svg|png)\)")
PERSON = re.compile(rf"\b({'|'.join(PEOPLE)})\b", re.IGNORECASE)


def prose(lines):
    """The lines of a page without code, targets of links and quotes; line numbers stay."""
    text = without_comments("\n".join(lines))
    text = re.sub(r"(`+)(?!`).*?\1", " ", text)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)
    return re.sub(r"\"[^\"\n]*\"", " ", text).split("\n")


def cells(line):
    """The cells of a table row: `\\|` and bars in code are no borders. Empty if the line is no row."""
    if not line.startswith("|"):
        return []
    plain = re.sub(r"(`+)(?!`).*?\1", lambda m: m.group(0).replace("|", "\0"), line.replace("\\|", "\0\0"))
    return [cell.strip() for cell in plain.strip().strip("|").split("|")]


def sentences(lines):
    """(number, line) of each line of prose without targets of links, as check_words.py reads it."""
    for number, line in enumerate(without_comments("\n".join(lines)).split("\n"), 1):
        text = re.sub(r"\[([^\[\]]*)\]\([^)\s]*\)", r"\1", PICTURE.sub("", line))
        yield number, "" if line.startswith("#") else text.replace("**", "")


def errors_of(name, text, is_guide=True):
    """What is wrong with a page."""
    errors = []
    lines = without_code(text)
    if is_guide:
        words = len(text.split())
        if words > WORDS:
            errors.append(f"{name} has {words} words; at most {WORDS} are allowed: split it")
        if name not in TABLES and not PICTURE.search("\n".join(lines)):
            errors.append(f"{name} has no picture")
    for number, line in enumerate(prose(lines), 1):
        for word in PERSON.findall(line):
            errors.append(f"{name}:{number}: '{word}' is for people: say it, which, that, none or all")
    for number, what in comment_errors(sentences(lines)):
        if not what.startswith('"'):  # PEOPLE is checked above
            errors.append(f"{name}:{number}: {what}")
    for number, line in enumerate(lines, 1):
        for cell in cells(re.sub(r"\]\([^)\s]*\)", "]", line)):
            if len(cell) > CELL:
                errors.append(f"{name}:{number}: a cell has {len(cell)} characters, more than {CELL}: {cell[:40]}...")
    return errors


def pages_of(root):
    """(path below ROOT, text, whether it is a guide) of each page that is checked."""
    names = [os.path.join("docs", name) for name in sorted(os.listdir(os.path.join(root, "docs")))]
    guides = [name for name in names if name.endswith(".md")]
    others = [name for name in OTHERS if os.path.exists(os.path.join(root, name))]
    for folder in FOLDERS:
        for path, _, files in os.walk(os.path.join(root, folder)):
            others += [os.path.relpath(os.path.join(path, file), root) for file in sorted(files) if file.endswith(".md")]
    for name in guides + others:
        with open(os.path.join(root, name), encoding="utf-8") as f:
            yield name, f.read(), name in guides


def self_test(pages):
    """What the check does not see. The pages must be right."""
    missed = []

    def must(fail, what, name, text, is_guide=True):
        if bool(errors_of(name, text, is_guide)) != fail:
            missed.append(f"{name}: {what}: {'not seen' if fail else 'seen'}")

    changes = 0
    for name, text, is_guide in pages:
        must(True, "a long cell", name, f"{text}\n| {'x' * (CELL + 1)} |\n", is_guide)
        for word in PEOPLE:
            must(True, word, name, f"{text}\nA request, {word} waits.\n", is_guide)
            must(True, word.capitalize(), name, f"{text}\n| {word.capitalize()} waits | |\n", is_guide)
            must(False, f"{word} in code", name, f"{text}\n`{word}`, \"{word}\", [x](y.md#{word})\n", is_guide)
            must(False, f"{word} in a block", name, f"{text}\n```text\n{word}\n```\n", is_guide)
            changes += 4
        for long in ("word " * 26, "One; two; three", "Of these, two"):
            must(True, long, name, f"{text}\n{long}.\n", is_guide)
            must(True, f"{long} in an item", name, f"{text}\n- **Word.** {long}.\n", is_guide)
            must(True, f"{long} behind a link", name, f"{text}\n[Word](y.md). {long.capitalize()}.\n", is_guide)
            must(False, f"{long} in a block", name, f"{text}\n```text\n{long}.\n```\n", is_guide)
            must(False, f"{long} in a table", name, f"{text}\n| {long}. |\n", is_guide)
            changes += 5
        must(False, "25 words", name, f"{text}\n{'word ' * 24}[a](b.md). Word.\n", is_guide)
        changes += 1
        if is_guide:
            room = WORDS - len(text.split())
            must(False, f"{room} words more", name, f"{text}\n\n{'Word. ' * room}")
            must(True, f"{room + 1} words more", name, f"{text}\n\n{'Word. ' * (room + 1)}")
            changes += 2
            if name not in TABLES:
                bare = PICTURE.sub("", text)
                must(True, "no picture", name, bare)
                must(True, "a picture in code", name, f"{bare}\n```text\n![x](pictures/x.svg)\n```\n")
                changes += 2
    if not any(is_guide for _, _, is_guide in pages) or not any(name not in TABLES for name, _, _ in pages):
        missed.append("there is no guide that could be altered")
    return missed, changes


def main(arguments):
    wants_test = "--self-test" in arguments
    rest = [a for a in arguments if a != "--self-test"]
    if len(rest) != 1 or rest[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    pages = list(pages_of(os.path.abspath(rest[0])))
    errors = [] if pages else ["there are no pages in docs/"]
    for page in pages:
        errors += errors_of(*page)
    changes = 0
    if wants_test and not errors:
        errors, changes = self_test(pages)
    for error in errors:
        print(error, file=sys.stderr)
    if not errors:
        longest = max(len(text.split()) for _, text, is_guide in pages if is_guide)
        print(f"{changes} changes are seen" if wants_test else f"{len(pages)} pages; the longest guide has {longest} words")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
