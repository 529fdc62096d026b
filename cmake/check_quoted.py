#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_quoted.py ROOT [--tools FOLDER]... [--data FOLDER] [--update] [PAGE.md...]

Runs the commands that README.md and docs/*.md under ROOT quote, and compares what they print with the page.

A block of `sh` directly before a block of `text` is a command with its output. Other blocks of `sh` are not read, nor
are those with a line that calls neither script/demo nor a program in a FOLDER. The quoted lines must stand in the
output, in a row. A line `...` stands for any number of lines. Wall-clock times, which no two runs share, are left out
of the comparison (MEASURED).

    <!-- files: trace.csv = azure_llm_2023_conv.csv, new.jsonl = prompts.jsonl 5001:7683 -->

before the `sh` block makes these files from the data folder, whole or some of their lines. Without that folder the
command is skipped, and this is said.

    <!-- not run: REASON -->

before the `text` block leaves it out. With --update a block that differs is written anew, unless it has a line `...`.
It gets all that is printed. If few lines of that were quoted, it gets as many lines that are most like them.
Exit codes: 0 all is as quoted, 1 something differs, 2 misuse, 77 nothing could be run.
"""
import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)\s*$")
MEASURED = [
    (re.compile(r"planned in [\d.]+ ms"), "planned in _ ms"),
    (re.compile(r"(validation tau-b [\d.]+), [\d.]+ s\b"), r"\1, _ s"),
]


class Block:
    def __init__(self, language, first, last, lines, comment):
        self.language, self.first, self.last = language, first, last  # line numbers of its text, from 0; last excluded
        self.lines = lines
        self.comment = comment


def blocks_of(text):
    """The fenced blocks of a page, each with the comment in the line before it."""
    lines = text.split("\n")
    found = []
    start = None
    for i, line in enumerate(lines):
        mark = FENCE.match(line)
        if not mark:
            continue
        if start is None:
            comment = lines[i - 1] if i and lines[i - 1].startswith("<!-- ") else ""
            start = (mark.group(1), i + 1, comment)
        else:
            found.append(Block(start[0], start[1], i, lines[start[1] : i], start[2]))
            start = None
    return lines, found


def pairs_of(lines, blocks):
    """Each command with its quoted output: nothing but blank lines and comments between the two blocks."""
    for command, output in zip(blocks, blocks[1:]):
        if command.language != "sh" or output.language != "text":
            continue
        between = lines[command.last + 1 : output.first - 1]
        if all(not line.strip() or line.startswith("<!--") for line in between):
            yield command, output


def commands_of(block, programs):
    """The commands of a block, or None if one calls something else."""
    commands = []
    for line in block.lines:
        line = re.sub(r"\s+#\s.*$", "", line).strip()
        if not line or line.startswith("#"):
            continue
        if line.split()[0] not in programs:
            return None
        commands.append(line)
    return commands


def make_files(comment, data, folder):
    """Makes the files that a comment names. False if the data folder lacks one."""
    match = re.match(r"<!-- files: (.*) -->", comment)
    if not match:
        return True
    for item in match.group(1).split(","):
        name, source = (part.strip() for part in item.split("=", 1))
        source, _, lines = source.partition(" ")
        path = data / source if data else None
        if path is None or not path.is_file():
            return False
        text = path.read_text()
        if lines:
            first, last = (int(n) if n else None for n in lines.split(":"))
            text = "".join(text.splitlines(keepends=True)[first - 1 : last])
        (folder / name).write_text(text)
    return True


def plain(line):
    for pattern, replacement in MEASURED:
        line = pattern.sub(replacement, line)
    return line.rstrip()


def stands_in(quoted, printed):
    """Whether the quoted lines stand in the printed ones in a row, where `...` is any number of lines."""
    parts = [[]]
    for line in quoted:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    at = 0
    for part in parts:
        last = len(printed) - len(part)
        while at <= last and printed[at : at + len(part)] != part:
            at += 1
        if at > last:
            return False
        at += len(part)
    return True


def window_like(quoted, printed):
    """The printed lines that stand for the quoted ones: all of them, or, if few were quoted, those that are most like."""
    if 2 * len(quoted) >= len(printed):
        return printed
    def likeness(at):
        return difflib.SequenceMatcher(None, "\n".join(quoted), "\n".join(printed[at : at + len(quoted)])).ratio()
    at = max(range(len(printed) - len(quoted) + 1), key=likeness)
    return printed[at : at + len(quoted)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, action="append")
    parser.add_argument("--data", type=pathlib.Path, default=None)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_intermixed_args()
    root = options.root.resolve()
    tools = [t.resolve() for t in options.tools or (root / "build/demo/tools", root / "build/demo/examples")]
    found = {p.name: p for t in reversed(tools) if t.is_dir() for p in t.iterdir() if p.is_file() and os.access(p, os.X_OK)}
    programs = {*found, "script/demo"}
    pages = options.pages or [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    path = ":".join([*map(str, tools), str(root), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "TESSERA_REPLAY": str(found.get("replay", tools[0] / "replay"))}

    ran = skipped = 0
    failed = []
    for page in pages:
        text = page.read_text()
        lines, blocks = blocks_of(text)
        shown = page.resolve().relative_to(root) if page.resolve().is_relative_to(root) else page
        updates = []
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for command, output in pairs_of(lines, blocks):
                if output.comment.startswith("<!-- not run: "):
                    continue
                if output.comment.startswith("<!-- file: "):
                    continue  # held to a file by check_snippets.cmake
                commands = commands_of(command, programs)
                where = f"{shown}:{output.first + 1}"
                if commands is None:
                    failed.append(f"{where}: the block before it calls a program that is not in {', '.join(map(str, tools))}")
                    continue
                if not make_files(command.comment, options.data, folder):
                    skipped += 1
                    print(f"{where}: skipped: its data are not here ({command.comment[5:-4]})")
                    continue
                commands = [re.sub(r"^script/demo", str(root / "script/demo"), c) for c in commands]
                done = subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=folder, env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                ran += 1
                if done.returncode != 0:
                    failed.append(f"{where}: {commands[0]} ended with {done.returncode}: {done.stderr[-400:]}")
                    continue
                printed = done.stdout.rstrip("\n").split("\n")
                if stands_in([plain(q) for q in output.lines], [plain(p) for p in printed]):
                    continue
                difference = difflib.unified_diff(output.lines, [p.rstrip() for p in printed], "quoted", "printed", lineterm="", n=0)
                failed.append(f"{where}: {commands[0]} prints something else:\n" + "\n".join(list(difference)[:60]))
                if "..." not in output.lines:
                    updates.append((output.first, output.last, window_like(output.lines, [p.rstrip() for p in printed])))
        if options.update and updates:
            for first, last, printed in reversed(updates):
                lines[first:last] = printed
            page.write_text("\n".join(lines))
    for failure in failed:
        print(failure)
    print(f"{ran} quoted commands run, {len(failed)} differ, {skipped} skipped")
    if failed:
        return 1
    return 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
