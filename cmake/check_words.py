#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_words.py ROOT     check_words.py --self-test

Checks the English of comments and docstrings in the folders of COMMENTS below, and of string literals in the folders of
MESSAGES. CONTRIBUTING.md has the rule.

1. No `who whom whose whoever nobody everybody somebody anybody anyone everyone someone he his him himself`. A request
   or a program is "it", "that", "none", "all". Identifiers in backticks and text in double quotes are not read.
2. No sentence begins with "Of ".
3. In messages: a quantity has a name or a number, not "so many" or "as many as may".
4. In comments: a sentence has at most 25 words and at most one semicolon. An identifier in backticks and a text in
   double quotes are a word each. Verbatim blocks and tables are not read.

--self-test: every rule is broken once in every kind of text, and the check must see it.
"""

import ast
import bisect
import io
import os
import re
import sys
import tokenize

# The comments of these folders, with all that is below them, and of these files are checked.
COMMENTS = ("CMakeLists.txt", "bench", "cmake", "examples", "include", "python", "script", "src", "tests", "tools")
# What is built below them is not ours, or is checked already.
BUILT = ("__pycache__", "build", "dist", "vendor")
# The string literals of these folders are checked: what a user reads.
MESSAGES = ("bench", "examples", "include", "python/native", "python/src", "src", "tools")

MOST_WORDS = 25
PEOPLE = re.compile(
    r"\b(?:who|whom|whose|whoever|nobody|everybody|somebody|anybody|anyone|everyone|someone|he|his|him|himself)\b",
    re.IGNORECASE,
)
VAGUE = re.compile(r"\bso (?:many|much)\b|\bas (?:many|much) as (?:may|can)\b", re.IGNORECASE)
CPP = re.compile(
    r'(?P<string>R"([^(\s"]*)\((?:.|\n)*?\)\2"|"(?:\\.|[^"\\\n])*")'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"
    r"|(?P<line>//[^\n]*)|(?P<block>/\*(?:.|\n)*?\*/)"
)
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")
ABBREVIATION = re.compile(r"(?:^|\W)(?:al|e\.g|i\.e|vs|cf|etc|No|pp|[Ff]igs?|[Ss]ec|[Ee]qs?|Alg)\.$")


def visible(text):
    """A line with identifiers and quotes as a word each, without emphasis and commands of Doxygen."""
    text = re.sub(r"``.+?``|`[^`]*`", "`X`", text)
    text = re.sub(r'"[^"]*"', '"Q"', text)
    return re.sub(r"\*+(?=\w)|(?<=[\w.])\*+", "", text)


def sentences(lines):
    """(line, text) of every sentence in the lines of one comment, each given as (number, text)."""
    paragraphs = []
    verbatim = fence = doctest = False
    after_blank = True
    for number, line in lines:
        if line.strip().startswith("```"):
            fence = not fence
        if fence or line.strip().startswith(("```", "|")):
            after_blank = True
            continue
        if not line.strip():
            after_blank, verbatim, doctest = True, False, False
            continue
        doctest = doctest or line.strip().startswith(">>> ")
        if doctest:
            continue
        if line.startswith("    ") and (verbatim or after_blank):
            verbatim = True
            continue
        if after_blank or ITEM.match(line) or not paragraphs:
            paragraphs.append([])
        after_blank = verbatim = False
        paragraphs[-1].append((number, line.strip()))
    for paragraph in paragraphs:
        text = visible("\n".join(line for _, line in paragraph))
        # A quote or an identifier that goes over lines takes the number of its first line.
        starts = []
        words = []
        for offset, line in enumerate(text.split("\n")):
            for word in line.split():
                starts.append(paragraph[min(offset, len(paragraph) - 1)][0])
                words.append(word)
        if words and re.fullmatch(r"[-*]|\d+\.", words[0]):
            starts, words = starts[1:], words[1:]
        first = 0
        for i, word in enumerate(words):
            last = i + 1 == len(words)
            follows = "" if last else words[i + 1]
            ends = re.search(r"[.!?][)\]\"]*$", word) and re.match(r"[(\[]*[A-Z0-9`\"]", follows)
            if last or follows.startswith(("@", ":param", ":raises")) or (ends and not ABBREVIATION.search(word)):
                yield starts[first], " ".join(words[first : i + 1])
                first = i + 1


def comment_errors(lines):
    """(line, what is wrong) of one comment, given as (number, text)."""
    for number, sentence in sentences(lines):
        plain = re.sub(r"^(?:@\w+(?:\[\w+\])?|:(?:param \w+|raises):?)\s*", "", sentence)
        people = PEOPLE.search(plain)
        if people:
            yield number, f'"{people.group(0)}": say "it", "that", "none" or "all" of a request or a program'
        if plain.startswith("Of "):
            yield number, f'a sentence begins with "Of": {sentence[:60]}'
        count = sum(1 for word in plain.split() if re.search(r"\w", word))
        if count > MOST_WORDS:
            yield number, f"a sentence of {count} words, at most {MOST_WORDS}: {sentence[:60]}"
        if plain.count(";") > 1:
            yield number, f"a sentence with more than one semicolon: {sentence[:60]}"


def message_errors(number, text):
    plain = re.sub(r"``.+?``|`[^`]*`", "", text)
    word = PEOPLE.search(plain) or VAGUE.search(plain)
    if word:
        yield number, f'"{word.group(0)}" in a message: {text[:60]}'
    if re.match(r'(?:R?"(?:\w*\()?)?Of ', text) or re.search(r"[.!?] Of ", text):
        yield number, f'a sentence of a message begins with "Of": {text[:60]}'


def stripped(text):
    """The text of a line of a comment, without one blank before it."""
    return text[1:] if text.startswith(" ") else text


def cpp(text):
    """(comments, literals) of C++: lists of lines (number, text) for each comment; (number, text) for each literal."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    comments, literals = [], []
    before = None  # line, column, marker of the line of a comment that was read last
    for m in CPP.finditer(text):
        row = bisect.bisect_right(starts, m.start()) - 1
        column = m.start() - starts[row]
        if m.group("string"):
            literals.append((row + 1, m.group("string")))
        elif m.group("block"):
            if m.group("block").startswith("/* output:\n"):
                continue  # what an example prints
            body = [re.sub(r"^\s*\*(?!\*)|^[*!]+<?", "", b) for b in m.group("block")[2:-2].split("\n")]
            comments.append([(row + 1 + i, stripped(b)) for i, b in enumerate(body)])
        elif m.group("line"):
            marker = re.match(r"//[/!]?<?", m.group("line")).group(0)
            own = not lines[row][:column].strip()
            content = (row + 1, stripped(m.group("line")[len(marker) :]))
            if own and before == (row - 1, column, marker):
                comments[-1].append(content)
            else:
                comments.append([content])
            before = (row, column, marker)
    return comments, literals


def python(text):
    """(comments, literals) of Python, docstrings among the comments."""
    comments, literals = [], []
    before = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            row, column = token.start
            content = (row, stripped(token.string.lstrip("#:")))
            if before == (row - 1, column):
                comments[-1].append(content)
            else:
                comments.append([content])
            before = (row, column)
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=True)
            if docstring:
                docstrings.add(node.body[0].value)
                comments.append([(node.body[0].lineno + i, line) for i, line in enumerate(docstring.split("\n"))])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            literals.append((node.lineno, node.value))
    return comments, literals


def shell(text):
    """(comments, literals) of a shell script or of CMake: lines that are comments."""
    comments = []
    before = None
    for row, line in enumerate(text.split("\n"), 1):
        m = re.match(r"(\s*)#(?!!)(.*)$", line)
        if not m:
            continue
        if before == (row - 1, len(m.group(1))):
            comments[-1].append((row, stripped(m.group(2))))
        else:
            comments.append([(row, stripped(m.group(2)))])
        before = (row, len(m.group(1)))
    return comments, []


def reader_of(name, text):
    if name.endswith((".hpp", ".cpp", ".cuh", ".cu", ".h")):
        return cpp
    if name.endswith((".py", ".pyi")) or text.startswith("#!/usr/bin/env python"):
        return python
    if name.endswith((".sh", ".cmake", ".cmake.in", "CMakeLists.txt")):
        return shell
    if text.startswith(("#!/usr/bin/env bash", "#!/bin/sh", "#!/bin/bash")):
        return shell
    return None


def file_errors(name, text, comments_too, messages_too):
    """(number of comments and messages, errors) of one file."""
    read = reader_of(name, text)
    if not read:
        return 0, []
    comments, literals = read(text)
    errors = []
    checked = 0
    if comments_too:
        checked += len(comments)
        for lines in comments:
            errors += comment_errors(lines)
    if messages_too:
        checked += len(literals)
        for number, literal in literals:
            errors += message_errors(number, literal)
    return checked, [f"{name}:{number}: {what}" for number, what in sorted(errors)]


def files_of(root, name):
    """The files of a folder by their paths in the project, or the file itself; without what is built there."""
    if not os.path.isdir(os.path.join(root, name)):
        yield name
    for folder, folders, files in os.walk(os.path.join(root, name)):
        folders[:] = [f for f in folders if f not in BUILT and not f.startswith(".")]
        for file in files:
            yield os.path.relpath(os.path.join(folder, file), root).replace(os.sep, "/")


def check(root):
    errors = []
    checked = 0
    names = []
    for name in sorted({*COMMENTS, *MESSAGES}):
        if os.path.exists(os.path.join(root, name)):
            names.append(name)
        else:
            errors.append(f"there is no {name}")
    for path in sorted({path for name in names for path in files_of(root, name)}):
        here = [any(f"{path}/".startswith(f"{name}/") for name in of) for of in (COMMENTS, MESSAGES)]
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
            count, wrong = file_errors(path, f.read(), *here)
        checked += count
        errors += wrong
    return checked, errors


KINDS = {
    "a.hpp": ("/// {}\nint a;\n", "int a;  ///< {}\n", "// {}\n", "/* {} */\n", "/** {} */\n", "#define A 1  // {}\n"),
    "a.cuh": ("/// {}\n__global__ void a();\n",),
    "a.py": (
        "# {}\na = 1\n",
        "a = 1  # {}\n",
        '"""{}"""\n',
        'def a():\n    """{}"""\n',
        'class A:\n    """{}\n    """\n',
    ),
    "a.cmake": ("# {}\nset(a 1)\n", "if(a)\n  # {}\nendif()\n"),
    "a": ("#!/usr/bin/env bash\n# {}\n", "#!/usr/bin/env bash\nif true; then\n  # {}\nfi\n"),
}
LONG = " ".join(["word"] * 26) + "."
WRONG = (
    *(
        f"It is {word} here."
        for word in (
            "who whom whose whoever nobody everybody somebody anybody anyone everyone someone he his him himself "
            "Who Nobody"
        ).split()
    ),
    "A request whose blocks are free.",
    "The first is here. Everyone else waits.",
    "Of two requests the first.",
    "It is first. Of the others none is.",
    "One; two; three.",
    LONG,
    "Short (as `a`). " + LONG,
    f"- an item\n{{0}}- {LONG}",
    "word " * 13 + "\n{0}" + "word " * 13,
    "word " * 13 + "cf. Word " + "word " * 13,
)
RIGHT = (
    "Blocks that `nobody` holds; `who` is a name.",
    'Source: "Who is whose" (A et al. 2024, "Of mice"), section 3.',
    "It holds nobody_hears and everyone_else.",
    "word " * 24 + "word. " + "Word " * 24 + "word.",
    "One; two. Three; four.",
    "`a b c d e` " * 25,
    "Example:\n{0}\n{0}    " + "word " * 40 + "\n{0}\n{0}That is all.",
    "Example:\n{0}```\n{0}" + "word " * 40 + "\n{0}```\n{0}That is all.",
    "| " + "word " * 40 + "|",
    "@param a " + "word " * 20 + "\n{0}@param b " + "word " * 20,
    "- " + "word " * 20 + "\n{0}- " + "word " * 20,
    "Word.\n{0}\n{0}>>> " + "word " * 20 + "\n{0}>>> " + "word " * 20 + "\n{0}\n{0}That is all.",
    ":param a: " + "word " * 20 + "\n{0}:param b: " + "word " * 20,
)


def self_test():
    """What the check does not see, or sees wrongly."""
    missed = []
    tried = 0
    for name, forms in KINDS.items():
        for form in forms:
            # What comes before the text on further lines of this kind of comment.
            before = re.search(r"([^\n]*)\{\}", form).group(1)
            before = re.sub(r"\w.*;  (?=//)", lambda m: " " * len(m.group(0)), before)
            one_line = '"""' in form or "/*" in form or "#define" in form or "a = 1  #" in form
            for wrong, texts in ((True, WRONG), (False, RIGHT)):
                for text in texts:
                    if one_line and "{0}" in text:
                        continue
                    tried += 1
                    whole = form.replace("{}", text.replace("{0}", before))
                    found = file_errors(name, whole, True, False)[1]
                    if bool(found) != wrong:
                        missed.append(f"{name}: {whole!r}: " + ("not seen" if wrong else found[0]))
    for wrong, text in (
        (True, 'f("nobody is here");'),
        (True, 'f("Of these, two");'),
        (True, 'f("so many requests");'),
        (True, 'f("as many hold it as may, as many as may");'),
        (True, 'f("a. Of these, two");'),
        (True, 'f(R"(who is it)");'),
        (False, 'f("a `who` b");'),
        (False, "// who\nf(nobody);"),
        (False, "f('who');"),
    ):
        tried += 1
        if bool(file_errors("a.cpp", text, False, True)[1]) != wrong:
            missed.append(f"message {text}: " + ("not seen" if wrong else "seen wrongly"))
    for wrong, text in (
        (True, "f('nobody is here')"),
        (True, "f('Of these, two')"),
        (True, "f(f'{a} of so many')"),
        (True, "f('a '\n  'who waits')"),
        (False, "# who\nf(nobody)"),
        (False, '"""Who?"""'),
        (False, 'def f():\n    """Who?"""\n'),
    ):
        tried += 1
        if bool(file_errors("a.py", text, False, True)[1]) != wrong:
            missed.append(f"message {text}: " + ("not seen" if wrong else "seen wrongly"))
    # Code is not read as comments, nor strings; and the line is that of the sentence.
    for name, text in (
        ("a.cpp", 'auto a = everyone{}; f("// nobody");'),
        ("a.cpp", "/* output:\nnobody\n*/\n"),
        ("a.cpp", f"int a;  // {'word ' * 20}\nint b;  // {'word ' * 20}\n"),
        ("a.py", 'a = "# nobody"\n'),
        ("a", "#!/bin/sh\necho who\n"),
    ):
        tried += 1
        if file_errors(name, text, True, False)[1]:
            missed.append(f"{name}: code is read: {text!r}")
    text = "int a;\n/// Right here.\n/// Right. It is\n/// so. Of two\n/// one.\n"
    found = file_errors("a.cpp", text, True, False)[1]
    if len(found) != 1 or not found[0].startswith("a.cpp:4:"):
        missed.append(f"the line of a sentence: {found}")
    return tried + 1, missed


def main(arguments):
    if arguments == ["--self-test"]:
        checked, errors = self_test()
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        checked, errors = check(os.path.abspath(arguments[0]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for error in errors:
        print(error, file=sys.stderr)
    if checked == 0:
        print("nothing was checked", file=sys.stderr)
        return 1
    if not errors:
        what = "trials of the check" if arguments == ["--self-test"] else "comments and messages"
        print(f"{checked} {what} are as they should be")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
