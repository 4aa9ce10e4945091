"""How pages and docstrings are written: words, long sentences, words that are not to be used.

    python .ci/words.py [--before 17ed50f] [--json FILE]

Prints a row for each page of the working tree, then a table of sums beside those of an earlier revision. Tables, code
and headings are no sentences. Listed words are those that the house style replaces, in pages, docstrings and messages.
Public docstrings are those of the front, `operformer.__all__`.
"""

import argparse
import ast
import json
import re
from pathlib import Path
from statistics import median

from earlier import BEFORE, ROOT, print_table, tree_at
from house import public
from syntax import parse

LONG, LONGEST = 25, 40
LISTED = re.compile(
    r"\b(forth and back|by heart|(?:is|are|was|were) told|tells? of|mend(?:s|ed|ing)?|the former|goes on from|dear|"
    r"as many points|so many (?:points|waves|samples)|(?-i:is none)|is not there|lost:)\b",
    re.IGNORECASE,
)
FIRST_NAMES = (
    "Grid", "attention", "TNO", "ViTNO", "FANO", "SpectralOperator", "Samples", "Training", "train", "evaluate",
    "predict", "load",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, metavar="REV")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tree_at(arguments.before) as tree:
        columns = {"before": measure(tree)} if tree else {}
    columns["now"] = measure(ROOT)
    pages = columns["now"].pop("pages")
    columns.get("before", {}).pop("pages", None)
    header = ("page", "lines", "words", f"over {LONG} words", "longest", "listed")
    print_table([header, *((name, *numbers) for name, numbers in pages.items())], left=1)
    print()
    rows = [[label, *(column[label] for column in columns.values())] for label in columns["now"]]
    print_table([["", *columns], *rows], left=1)
    if arguments.json:
        arguments.json.write_text(json.dumps(columns | {"pages": pages}, indent=2) + "\n")


def measure(root):
    """Numbers by their labels, and those of each page."""
    paths = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "notebook").glob("*.md")]
    paths = [path for path in sorted(paths) if path.name not in ("RESULTS.md", "LICENSE.md")]
    pages = {path.relative_to(root).as_posix(): _page(path.read_text()) for path in paths}
    modules = parse(root)
    docstrings = {node.name: ast.get_docstring(node) or "" for _, node in public(modules)}
    said = [words for tree in modules.values() for words in _strings(tree)]
    return {
        "pages": pages,
        "words of all pages": sum(words for _, words, *_ in pages.values()),
        f"sentences over {LONG} words": sum(page[2] for page in pages.values()),
        "longest sentence": max(page[3] for page in pages.values()),
        f"pages with a sentence over {LONGEST} words": sum(page[3] > LONGEST for page in pages.values()),
        "listed words in pages": sum(page[4] for page in pages.values()),
        "listed words in docstrings and messages": sum(len(LISTED.findall(words)) for words in said),
        "median words of a public docstring": median(len(text.split()) for text in docstrings.values()),
        "public names without an example": sum("Example" not in text for text in docstrings.values()),
        "first names without an example": sum("Example" not in docstrings.get(name, "") for name in FIRST_NAMES),
    }


def _page(text):
    found = sentences(text)
    lengths = [len(sentence.split()) for sentence in found] or [0]
    words = sum(len(line.split()) for line in text.splitlines())
    return len(text.splitlines()), words, sum(n > LONG for n in lengths), max(lengths), len(LISTED.findall(text))


def sentences(text):
    """The sentences of a page: no code, no tables, no headings; a link counts by its words, code by one."""
    text = re.sub(r"^```.*?^```|\$\$.*?\$\$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", re.sub(r"`[^`]*`|\$[^$]*\$", "code", text))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)|\[([^\]]*)\]\[[^\]]*\]", r"\1\2", text)
    kept = ["" if re.match(r"\s*[|#>]|    |---|--8<--", line) else line for line in text.splitlines()]
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(kept))
    return [
        s
        for part in parts
        for s in re.split(r"(?<=[.!?:;])\s+", " ".join(part.replace("**", "").split()).strip("* -"))
        if s
    ]


def _strings(tree):
    """The texts of a module that are read by people: docstrings and messages."""
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


if __name__ == "__main__":
    main()
