"""The size and the shape of the package, of an earlier revision and of the working tree.

    python .ci/house.py [--before 17ed50f] [--json FILE]

Prints a table with one column for each of the two trees, and the import edges of the working tree. Nothing of either
tree is imported: all is read from the syntax of its files.

A room is a folder or a module right below operformer/, except the front and the shared modules. An edge is a pair of
rooms of which the first imports the second, anywhere in a module; imports for type checkers alone count in a row of
their own. Lines are those of Python files, comments and empty lines included. A function's length includes its
docstring. Arguments are counted without self; a dataclass has its fields. Public classes are those in
operformer.__all__ and in operators/baselines.
"""

import argparse
import ast
import json
from pathlib import Path
from statistics import median

from earlier import BEFORE, ROOT, print_table, tree_at
from syntax import definition, functions, imports, is_dataclass, n_arguments, parse

SHARED = {"checking", "errors", "files", "memory", "settings", "terminal", "text", "values", "version"}
MOST_ARGUMENTS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, metavar="REV")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tree_at(arguments.before) as tree:
        columns = {"before": measure(tree)} if tree else {}
    columns["now"] = measure(ROOT)
    labels = [label for label in columns["now"] if not isinstance(columns["now"][label], list)]
    rows = [[label, *(shown(column[label]) for column in columns.values())] for label in labels]
    print_table([["", *columns], *rows], left=1)
    print("\nedges now:")
    for edge in columns["now"]["edges"]:
        print(f"  {edge}")
    if arguments.json:
        arguments.json.write_text(json.dumps(columns, indent=2) + "\n")


def shown(value):
    return value if isinstance(value, str) else f"{value:,.2f}".removesuffix(".00")


def measure(root):
    """Every number of a tree by its label; the list of its edges is under "edges"."""
    modules = parse(root)
    wheel, tests, paper = (list(map(lines, (root / name).rglob("*.py"))) for name in ("operformer", "tests", "paper"))
    lengths = dict(found for name, tree in modules.items() for found in functions(tree, name))
    longest = max(lengths, key=lengths.get)
    edges = edges_of(modules, with_types=False)
    return {
        "rooms": len({room(name) for name in modules} - SHARED - {""}),
        "import edges between rooms": len(edges),
        "the same with imports for type checkers": len(edges_of(modules, with_types=True)),
        "Python files in the wheel": len(wheel),
        "lines in the wheel": sum(wheel),
        "median lines of a file": median(wheel),
        "median lines of a function": median(lengths.values()),
        "lines of the longest function": lengths[longest],
        "name of the longest function": longest.removeprefix("operformer."),
        **constructors(modules),
        "median words of a public docstring": median(docstring_words(modules)),
        "lines of tests": sum(tests),
        "lines of paper/": sum(paper),
        "lines of tests per line of operformer and paper": sum(tests) / (sum(wheel) + sum(paper)),
        "edges": [f"{one} -> {', '.join(sorted(b for a, b in edges if a == one))}" for one in sorted(dict(edges))],
    }


def lines(path):
    return len(path.read_text().splitlines())


def room(module):
    """The folder or module right below operformer/; nothing for the front."""
    return ".".join(module.split(".")[1:2])


def edges_of(modules, with_types):
    """The pairs of rooms of which the first imports the second."""
    pairs = {(room(name), room(other)) for name in modules for other in imports(modules, name, with_types)}
    return {(one, other) for one, other in pairs if one != other and not {one, other} & (SHARED | {""})}


def public(modules):
    """The names that the front imports for type checkers, which are its public ones, with their modules."""
    front = [node for node in ast.walk(modules["operformer"]) if isinstance(node, ast.ImportFrom)]
    names = [alias.name for node in front if node.module.startswith("operformer.") for alias in node.names]
    found = (definition(modules, "operformer", name) for name in names)
    return [pair for pair in found if pair]


def docstring_words(modules):
    return [len((ast.get_docstring(node) or "").split()) for _, node in public(modules)]


def constructors(modules):
    """How large the constructors of public classes are, dataclasses apart."""
    classes = public(modules) + [
        (name, node)
        for name, tree in modules.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if ".baselines" in name
    ]
    arguments, fields = {}, {"none": 0}
    for name, node in classes:
        if isinstance(node, ast.ClassDef):
            counts = fields if is_dataclass(node) else arguments
            counts[node.name] = n_arguments(modules, name, node)
    largest, widest = max(arguments, key=arguments.get), max(fields, key=fields.get)
    return {
        "public classes, dataclasses apart": len(arguments),
        f"constructors with more than {MOST_ARGUMENTS} arguments": sum(n > MOST_ARGUMENTS for n in arguments.values()),
        "most arguments of a constructor": arguments[largest],
        "class of that constructor": largest,
        "most fields of a public dataclass": fields[widest],
        "name of that dataclass": widest,
    }


if __name__ == "__main__":
    main()
