"""What a page prints: its commands and its Python, in their order.

README.md and CONTRIBUTING.md print commands as indented blocks, the pages under docs/ in fences that say sh.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
SHELL, PYTHON = ("sh", "bash", "shell"), ("python", "py")
_FENCE = re.compile(r"^ *```+ *([\w+-]*)")
_COMMAND = re.compile(r"^(operformer|python3?|pip|make|torchrun|git|sbatch|srun) ")
_INLINE = re.compile(r"(?<!`)`((?:operformer|make|pip install) [^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Step:
    """A command, its comment gone and its lines joined, or a block of Python; and the line of the page it starts on."""

    kind: Literal["command", "python"]
    text: str
    line: int


@dataclass(frozen=True)
class Page:
    """A page by its name, steps in their order; ``strays`` are commands where nobody looks for them."""

    name: str
    steps: tuple[Step, ...]
    strays: tuple[Step, ...]
    inline: tuple[Step, ...]  # commands in the middle of a sentence, which may hold RUN in place of a folder

    @property
    def commands(self) -> tuple[Step, ...]:
        """The commands alone."""
        return tuple(step for step in self.steps if step.kind == "command")


def all_pages() -> list[str]:
    """The pages by their paths below the root."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in paths]


def read_page(name: str) -> Page:
    """A page of the project."""
    return parse_page((ROOT / name).read_text(), name, indented=not name.startswith("docs/"))


def parse_page(text: str, name: str, indented: bool) -> Page:
    """The steps of a page's text; ``indented`` says whether indented blocks are commands."""
    steps: list[Step] = []
    strays: list[Step] = []
    inline: list[Step] = []
    for language, first, lines in _blocks(text):
        if language in SHELL or (language == "indented" and indented):
            steps += _commands(lines, first)
        elif language in PYTHON:
            steps.append(Step("python", "\n".join(lines), first))
        elif language == "prose":
            inline += [Step("command", found, first) for found in _INLINE.findall("\n".join(lines))]
        else:
            strays += [step for step in _commands(lines, first) if _COMMAND.match(step.text)]
    return Page(name, tuple(steps), tuple(strays), tuple(inline))


def _blocks(text: str) -> list[tuple[str, int, list[str]]]:
    """Fences by their language, indented blocks and prose: what it is, its first line's number, its lines."""
    blocks: list[tuple[str, int, list[str]]] = []
    fence, before = "", ""  # the language of the fence we are in, "-" if it says none; the line before
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, depth = mark[1] or "-", len(line) - len(line.lstrip())
            blocks.append((fence, number + 1, []))
        elif mark:
            fence, before = "", ""
            continue
        elif fence:
            blocks[-1][2].append(line[depth:] if not line[:depth].strip() else line)
            continue
        else:
            goes_on = blocks and blocks[-1][0] == "indented" and before.startswith("    ")
            kind = "indented" if line.startswith("    ") and (goes_on or not before.strip()) else "prose"
            if not blocks or blocks[-1][0] != kind or (not before and kind == "indented"):
                blocks.append((kind, number, []))
            blocks[-1][2].append(line[4:] if kind == "indented" else line)
        before = line
    return blocks


def _commands(lines: list[str], first: int) -> list[Step]:
    """One command a line; a backslash at its end joins the next one."""
    found, parts, start = [], [], first
    for number, line in enumerate(lines, first):
        start = start if parts else number
        parts.append(_without_comment(line).strip())
        if parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1].strip()
            continue
        text = " ".join(filter(None, parts))
        if text:
            found.append(Step("command", text, start))
        parts = []
    return found


def _without_comment(line: str) -> str:
    """What stands before a # that begins a word and is in no quotes."""
    quote = ""
    for k, letter in enumerate(line):
        if letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        elif letter == "#" and not quote and (k == 0 or line[k - 1].isspace()):
            return line[:k]
    return line
