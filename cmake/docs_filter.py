#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs_filter.py PAGE.md

Doxygen's filter for pages. It prints the page, with its links to files that are no pages (sources, pictures) turned to
copies in $TESSERA_DOCS_OUTPUT/html/files, which it makes. Headings are labelled, so that links to them, which are
written for GitHub, work. Run from the project's root.
"""
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
from check_links import slug  # noqa: E402

root = os.getcwd()
page = os.path.abspath(sys.argv[1])
site = os.path.join(os.environ["TESSERA_DOCS_OUTPUT"], "html")


def label(path, anchor):
    """Doxygen's name for a heading: unique among all pages."""
    return re.sub(r"\W", "_", f"{os.path.relpath(path, root)}__{anchor}")


def turned(match):
    target = match.group(1)
    name, _, anchor = target.partition("#")
    if not name:
        return f"](#{label(page, anchor)})"
    if re.match(r"[a-z][a-z0-9+.-]*:", name):
        return match.group(0)
    path = os.path.normpath(os.path.join(os.path.dirname(page), name))
    if os.path.isdir(path) and os.path.exists(os.path.join(path, "README.md")):
        name = os.path.join(name, "README.md")
        path = os.path.join(path, "README.md")
    if path.endswith(".md") or not os.path.exists(path):
        return f"](#{label(path, anchor)})" if anchor else f"]({name})"
    copy = os.path.join("files", os.path.relpath(path, root))
    os.makedirs(os.path.dirname(os.path.join(site, copy)), exist_ok=True)
    if os.path.isdir(path):
        shutil.copytree(path, os.path.join(site, copy), dirs_exist_ok=True)
    else:
        shutil.copyfile(path, os.path.join(site, copy))
    return f"]({copy})"


with open(page, encoding="utf-8") as f:
    text = f.read()
out = []
fence = False
first = True
seen = {}
for line in text.split("\n"):
    if line.lstrip().startswith("```"):
        fence = not fence
    if fence:
        out.append(line)
        continue
    line = re.sub(r"\]\(([^)\s]+)\)", turned, line)
    heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
    if heading:
        anchor = slug(heading.group(1), seen)
        # Doxygen 1.9 shows the marks of code in the tree of pages, and in a heading that has a label.
        line = line.replace("`", "")
        if not first:  # a label on the first would rename the page
            line += f" {{#{label(page, anchor)}}}"
        first = False
    out.append(line)
sys.stdout.write("\n".join(out))
