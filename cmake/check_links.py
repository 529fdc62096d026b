#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_links.py ROOT [PAGE.md...]     check_links.py --html FOLDER

The first form reads README.md, the pages that it leads to, and all of docs/ under ROOT. Every relative link and picture
must name a file of the project, and every anchor a heading of its page. Every file in docs/ must be reached from
README.md. With pages named, only their links are checked. The second form does the same for a generated site: every
href and src that stays within it must exist, with its anchor.
"""
import html.parser
import os
import re
import sys
import urllib.parse

OUTSIDE = re.compile(r"^([a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def without_code(text):
    """The lines of a page with code blanked, so that line numbers stay."""
    fence = None
    lines = []
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            if mark and mark.group(1).startswith(fence):
                fence = None
            lines.append("")
        elif mark:
            fence = mark.group(1)
            lines.append("")
        else:
            lines.append(line)
    return lines


def without_comments(text):
    """The text with HTML comments blanked, so that line numbers stay."""
    return re.sub(r"<!--.*?-->", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.DOTALL)


def slug(heading, seen):
    """The anchor that GitHub gives to a heading. `seen` counts those before it on the page."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    count = seen.get(text, 0)
    seen[text] = count + 1
    return text if count == 0 else f"{text}-{count}"


def headings(lines):
    """(index of the line, depth, anchor) of each heading of a page without its code."""
    seen = {}
    for index, line in enumerate(lines):
        heading = re.match(r"(#{1,6})\s+(.*?)\s*#*$", line)
        if heading:
            yield index, len(heading.group(1)), slug(heading.group(2), seen)


def anchors(path):
    """The anchors of a page."""
    with open(path, encoding="utf-8") as f:
        lines = without_code(f.read())
    names = {anchor for _, _, anchor in headings(lines)}
    for line in lines:
        names.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return names


def links(path):
    """(line, target) of every link and picture of a page."""
    with open(path, encoding="utf-8") as f:
        lines = without_code(f.read())
    for number, line in enumerate(lines, 1):
        line = re.sub(r"(`+).*?\1", lambda m: " " * len(m.group(0)), line)
        for target in re.findall(r"\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)", line):
            yield number, target
        for target in re.findall(r"^\[[^\]]+\]:\s*(\S+)", line):
            yield number, target
        for target in re.findall(r"<(?:a|img)\b[^>]*\b(?:href|src)=\"([^\"]+)\"", line):
            yield number, target


def check_pages(root, pages):
    errors = []
    checked = 0
    everything = not pages
    waiting = [os.path.join(root, "README.md")] if everything else [os.path.abspath(p) for p in pages]
    reached = set(waiting)
    while waiting:
        page = waiting.pop()
        for line, target in links(page):
            if OUTSIDE.match(target):
                continue
            checked += 1
            name, _, anchor = target.partition("#")
            name = urllib.parse.unquote(name)
            path = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
            where = f"{os.path.relpath(page, root)}:{line}: {target}"
            if os.path.commonpath([path, root]) != root:
                errors.append(f"{where}: leads out of the project")
            elif not os.path.exists(path):
                errors.append(f"{where}: there is no {os.path.relpath(path, root)}")
            else:
                if os.path.isdir(path) and os.path.exists(os.path.join(path, "README.md")):
                    path = os.path.join(path, "README.md")
                if anchor and not path.endswith(".md"):
                    errors.append(f"{where}: an anchor into a file that has none")
                elif anchor and anchor not in anchors(path):
                    errors.append(f"{where}: {os.path.relpath(path, root)} has no heading #{anchor}")
                if everything and path not in reached:
                    reached.add(path)
                    if path.endswith(".md"):
                        waiting.append(path)
    if everything:
        for folder, _, files in os.walk(os.path.join(root, "docs")):
            for name in files:
                path = os.path.join(folder, name)
                # The script of a plot stands beside its picture.
                plot = name.endswith(".gp") and any(os.path.splitext(path)[0] + e in reached for e in (".svg", ".png"))
                if name != "Doxyfile" and not plot and path not in reached:
                    errors.append(f"{os.path.relpath(path, root)}: README.md does not lead to it")
    return checked, errors


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.names = set()
        self.targets = []

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        for key in ("id", "name"):
            if a.get(key):
                self.names.add(a[key])
        for key in ("href", "src", "data"):
            if a.get(key) and (key != "data" or tag == "object"):
                self.targets.append((self.getpos()[0], a[key]))


def check_site(root):
    errors = []
    checked = 0
    pages = {}
    for folder, _, files in os.walk(root):
        for name in files:
            if name.endswith(".html"):
                page = Page()
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    page.feed(f.read())
                pages[os.path.join(folder, name)] = page
    for path, page in sorted(pages.items()):
        for line, target in page.targets:
            if OUTSIDE.match(target):
                continue
            checked += 1
            name, _, anchor = target.partition("#")
            if anchor == "nested-classes":  # Doxygen 1.9 links to it where all nested classes are private
                continue
            name = urllib.parse.unquote(name.partition("?")[0])
            there = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            where = f"{os.path.relpath(path, root)}:{line}: {target}"
            if not os.path.exists(there):
                errors.append(f"{where}: there is no such file")
            elif anchor and there in pages and urllib.parse.unquote(anchor) not in pages[there].names:
                errors.append(f"{where}: no such anchor")
    return checked, errors


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--html":
        checked, errors = check_site(os.path.abspath(arguments[1]))
    elif arguments and not arguments[0].startswith("-"):
        checked, errors = check_pages(os.path.abspath(arguments[0]), arguments[1:])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for error in errors:
        print(error, file=sys.stderr)
    if checked == 0:
        print("no link was checked", file=sys.stderr)
        return 1
    if not errors:
        print(f"{checked} links lead somewhere")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
