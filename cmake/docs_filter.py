#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs_filter.py PAGE.md

Doxygen's filter for pages. It prints the page, with its links to files that are no pages (sources, pictures) turned to
copies in $TESSERA_DOCS_OUTPUT/html/files, which it makes. Headings are labelled, so that links to them, which are
written for GitHub, work. Doxygen 1.9 shows the asterisks of emphasis around code, and takes `a' for a quote. So such
emphasis becomes tags, and code with a single quote gets two marks on each side. Run from the project's root.
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


def plain(text):
    """The text of a link to a page, in which Doxygen knows no code."""
    return text.replace("`", "").replace("--", "\\--")


def emphasis(match):
    """Bold text as a tag; code by itself, as it is."""
    return f"<b>{match.group(2)}</b>" if match.group(2) else match.group(0)


def code(match):
    """Code with a single quote between two marks."""
    marks, text = match.groups()
    return f"``{text}``" if marks == "`" and "'" in text else match.group(0)


def turned(match):
    text, target = match.groups()
    name, _, anchor = target.partition("#")
    if not name:
        return f"[{plain(text)}](#{label(page, anchor)})"
    if re.match(r"[a-z][a-z0-9+.-]*:", name):
        return match.group(0)
    path = os.path.normpath(os.path.join(os.path.dirname(page), name))
    if os.path.isdir(path) and os.path.exists(os.path.join(path, "README.md")):
        name = os.path.join(name, "README.md")
        path = os.path.join(path, "README.md")
    if path.endswith(".md") or not os.path.exists(path):
        return f"[{plain(text)}]({'#' + label(path, anchor) if anchor else name})"
    copy = os.path.join("files", os.path.relpath(path, root))
    os.makedirs(os.path.dirname(os.path.join(site, copy)), exist_ok=True)
    if os.path.isdir(path):
        shutil.copytree(path, os.path.join(site, copy), dirs_exist_ok=True)
    else:
        shutil.copyfile(path, os.path.join(site, copy))
    return f"[{text}]({copy})"


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
    line = re.sub(r"\[([^\[\]]*)\]\(([^)\s]+)\)", turned, line)
    heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
    if heading:
        anchor = slug(heading.group(1), seen)
        # Doxygen 1.9 shows the marks of code in the tree of pages, and in a heading that has a label.
        line = line.replace("`", "")
        if not first:  # a label on the first would rename the page
            line += f" {{#{label(page, anchor)}}}"
        first = False
    out.append(line)
text = "\n".join(out)
for part in re.split(r"(^ *```.*?^ *```$)", text, flags=re.DOTALL | re.MULTILINE):
    if not part.lstrip().startswith("```"):
        part = re.sub(r"(`+)(?!`).*?\1|\*\*((?:`[^`\n]*`|(?!\n\n)[^*`])+)\*\*", emphasis, part)
        part = re.sub(r"^\*(?=[`|])((?:(?!\n\n).)+)\*$", r"<i>\1</i>", part, flags=re.DOTALL | re.MULTILINE)
        part = re.sub(r"(`+)(?!`)(.*?)(?<!`)\1(?!`)", code, part, flags=re.DOTALL)
    sys.stdout.write(part)
