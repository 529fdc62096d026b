#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_results.py ROOT [--self-test]     check_results.py ROOT --made FOLDER NAME...

Checks docs/results under ROOT. A page has at most WORDS words and shows one to three pictures of its folder. A CSV
file has a header of plain names, as many fields in each row, and an interval `x_ci95` right behind its mean `x`. Every
CSV file is linked from its page.

--made: FOLDER/NAME, what `reproduce NAME` has written, has the files of docs/results/NAME that it is for, with the same
headers. So plot.py can draw either.

--self-test: every defect that the check is for is seen, in a copy.
Exit codes: 0 all is well, 1 something is wrong, 2 misuse.
"""
import csv
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WORDS = 1500
PICTURES = 3
NAME = re.compile(r"[a-z][a-z0-9_]*")


def pages_of(results):
    """(page, its folder): README.md of a folder, or NAME.md beside the folder NAME."""
    for page in sorted([*results.glob("*.md"), *results.glob("*/*.md")]):
        if page.name == "measured.md":  # script/gpu writes it
            continue
        yield page, page.parent if page.parent != results else results / page.stem


def header_of(path):
    with open(path, encoding="utf-8", newline="") as f:
        return next(csv.reader(f), [])


def csv_errors(path):
    with open(path, encoding="utf-8", newline="") as f:
        found = list(csv.reader(f))
    if len(found) < 2:
        return [f"{path}: no row"]
    header = found[0]
    errors = [f"{path}: {name!r} is no name of a column" for name in header if not NAME.fullmatch(name)]
    for at, name in enumerate(header):
        if name.endswith("_ci95") and (at == 0 or header[at - 1] + "_ci95" != name):
            errors.append(f"{path}: {name} does not follow its mean")
    for number, row in enumerate(found[1:], 2):
        if len(row) != len(header):
            errors.append(f"{path}:{number}: {len(row)} fields, and the header has {len(header)}")
    return errors


def check(root):
    """What is wrong, and how many pages and files were looked at."""
    results = root / "docs" / "results"
    errors, pages, linked = [], 0, set()
    shown = {}
    for page, folder in pages_of(results):
        pages += 1
        text = page.read_text(encoding="utf-8")
        words = len(text.split())
        if words > WORDS:
            errors.append(f"{page}: {words} words; at most {WORDS} are allowed")
        targets = {(page.parent / t).resolve() for t in re.findall(r"\]\(([^)#\s]+)", text)}
        linked |= targets
        here = {t for t in targets if t.suffix == ".svg" and t.parent == folder.resolve()}
        shown.setdefault(folder, set()).update(here)
    for folder, pictures in shown.items():
        if not 1 <= len(pictures) <= PICTURES:
            errors.append(f"{folder}: {len(pictures)} pictures are shown; one to {PICTURES} are wanted")
    tables = sorted(results.glob("*/*.csv"))
    for path in tables:
        errors += csv_errors(path)
        if path.resolve() not in linked:
            errors.append(f"{path}: no page links to it")
    return errors, pages, len(tables)


def check_made(root, made, names):
    errors, files = [], 0
    for name in names:
        kept = {p.name: p for p in (root / "docs" / "results" / name).glob("*.csv")}
        new = {p.name: p for p in (made / name).glob("*.csv")}
        for file in sorted(kept.keys() ^ new.keys()):
            what = "not written by reproduce" if file in kept else "not kept in docs/results"
            errors.append(f"{name}/{file}: {what}")
        for file in sorted(kept.keys() & new.keys()):
            files += 1
            if header_of(kept[file]) != header_of(new[file]):
                errors.append(f"{name}/{file}: reproduce writes the columns {header_of(new[file])}, "
                              f"docs/results has {header_of(kept[file])}")
    return errors, files


def self_test(root):
    """The defects that are not seen."""
    def edited(path, old, new):
        def edit(results):
            text = (results / path).read_text(encoding="utf-8")
            (results / path).write_text(new + text if old is None else text.replace(old, new, 1), encoding="utf-8")
        return edit

    defects = {
        "too many words": edited("faults/README.md", None, "word " * WORDS),
        "no picture": edited("faults/README.md", "](deaths.svg)", "](deaths)"),
        "a file without a link": edited("faults/README.md", "](deaths.csv)", "](deaths)"),
        "a row that is short": edited("faults/deaths.csv", "\n", "\nrow\n"),
        "a name with a unit in brackets": edited("faults/deaths.csv", "ttft_p99_s,", "ttft (s),"),
        "an interval without its mean": edited("faults/deaths.csv", "ttft_p99_s,", "ttft_s,"),
    }
    missed = []
    for name, edit in defects.items():
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            shutil.copytree(root / "docs" / "results", copy / "docs" / "results")
            edit(copy / "docs" / "results")
            if not check(copy)[0]:
                missed.append(name)
    with tempfile.TemporaryDirectory() as folder:  # other columns, and a number that a picture shows
        copy = pathlib.Path(folder)
        shutil.copytree(root / "docs" / "results", copy / "docs" / "results")
        table = copy / "docs" / "results" / "faults" / "deaths.csv"
        kept = table.read_text(encoding="utf-8")
        table.write_text(kept.replace("ttft_p99_s,", "ttft_s,", 1), encoding="utf-8")
        if not check_made(root, copy / "docs" / "results", ["faults"])[0]:
            missed.append("other columns")
        table.write_text(kept.replace("1.27", "2.27", 1), encoding="utf-8")
        drawn = subprocess.run([sys.executable, copy / "docs" / "results" / "plot.py", "--check", "faults"],
                               stderr=subprocess.PIPE, check=False)
        if drawn.returncode not in (1, 77):
            missed.append("a picture of other numbers")
    return missed, len(defects) + 2


def main(arguments):
    if len(arguments) >= 4 and arguments[1] == "--made":
        errors, files = check_made(pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[2]), arguments[3:])
        done = f"{files} files have the columns of docs/results"
        if files == 0:
            errors.append("no file was compared")
    elif arguments[1:] in ([], ["--self-test"]) and arguments and not arguments[0].startswith("-"):
        root = pathlib.Path(arguments[0]).resolve()
        errors, pages, tables = check(root)
        done = f"{pages} pages and {tables} CSV files are in order"
        if not errors and arguments[1:]:
            errors, count = self_test(root)
            errors = [f"not seen: {e}" for e in errors]
            done = f"{count} defects are seen"
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for error in errors:
        print(error, file=sys.stderr)
    if not errors:
        print(done)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
