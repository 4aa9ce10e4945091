"""The tables of docs/speed.md from the files that other benchmarks wrote.

    python benchmarks/speed_tables.py [--folder docs/speed] [--page docs/speed.md]

Between the lines <!-- NAME --> and <!-- end of NAME --> of the page stands the table of FOLDER/NAME.json, if there is
such a file: operators and baselines (operator_speed.py), attention (attention_speed.py), growth (cost_growth.py) and
laptop (laptop_step.py). Of the operators the page has the fastest form and the exact one.
"""

import argparse
import json
import re
from pathlib import Path


def number(value):
    return "" if value is None or value != value else f"{value:.3g}" if isinstance(value, float) else str(value)


def markdown(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(number(row.get(c)) for c in columns) + " |" for row in rows])


def operators(found):
    columns = ["operator", "form", "precision", "batch", "step ms", "inference ms", "samples/s", "memory GiB"]
    missing = ["failed"] if any("failed" in row for row in found["rows"]) else []
    rows = [row for row in found["rows"] if row["form"] != "eager" and (row["form"], row["precision"]) not in LEFT_OUT]
    return markdown([*columns, "floor ms", "H1", *missing], rows)


def laptop(found):
    return markdown(["operator", "CPU ms", "to FNO"], found["rows"])


def attention(found):
    rows = [row for row in found["rows"] if row["form"] in ("ours", "mask")]  # "ratio" is to plain attention
    return markdown(["points", "head", "dtype", "what", "form", "ms", "ratio", "error"], rows)


def growth(found):
    names = {"inference ms": "inference, time", "inference GiB": "inference, memory"}
    names |= {"step ms": "step, time", "step GiB": "step, memory"}
    rows = [
        {"operator": study["operator"], "in": study["variable"]}
        | {new: study["exponents"].get(old) for old, new in names.items()}
        | {"up to": study["rows"][-1][study["variable"]] if study["rows"] else None}
        for study in found["studies"]
    ]
    return markdown(["operator", "in", *names.values(), "up to"], rows)


def origin(made):
    known = [f"{name} {made[name]}" for name in ("torch", "triton") if made.get(name)]
    changed = "" if made.get("is_clean", True) else ", changed"
    return f"{made['device']}, {', '.join(known)}, commit {made['commit'] or 'unknown'}{changed}."


TABLES = {"operators": operators, "baselines": operators, "attention": attention, "growth": growth, "laptop": laptop}
LEFT_OUT = (("compiled", "tf32"), ("compiled", "fp16"), ("literal", "full"))


def with_tables(page, folder):
    """The page with the table of each file that is there."""
    for name, table in TABLES.items():
        path = folder / f"{name}.json"
        if path.is_file():
            found = json.loads(path.read_text())
            text = f"<!-- {name} -->\n{origin(found['made'])}\n\n{table(found)}\n<!-- end of {name} -->"
            page, count = re.subn(f"<!-- {name} -->.*?<!-- end of {name} -->", lambda _: text, page, flags=re.DOTALL)  # noqa: B023
            if count != 1:
                raise SystemExit(f"the page needs one place for {name}, and has {count}")
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("docs/speed"))
    parser.add_argument("--page", type=Path, default=Path("docs/speed.md"))
    arguments = parser.parse_args()
    arguments.page.write_text(with_tables(arguments.page.read_text(), arguments.folder))


if __name__ == "__main__":
    main()
