"""Text from outside, made harmless before it is shown: names of files, arrays and devices, titles, messages.

Control characters move the cursor of a terminal, bidirectional ones turn what is read around, lone surrogates cannot be
written at all. Each is shown as the escape that Python has for it.
"""

# DESIGN.md: Text from outside passes one function

from __future__ import annotations

import re

# What Markdown would not show: "<" begins a tag before these letters alone, "]" ends a link before these.
_MARKUP = re.compile(r"[\\`*>|$~]|<(?=[A-Za-z/!?])|\](?=[(\[:])")


class Marked(str):
    """Text that was written as Markdown here, such as a link of our own."""


def plain(text: str) -> str:
    """The text on one line, with an escape such as \\x1b or \\u202e for every character that is not printable."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def shown(text: str, length: int = 60, quoted: bool = True) -> str:
    """A text as a part of a message: plain, not too long, and between quotes if asked for."""
    short = text if len(text) <= length else text[: length - 3] + "..."
    escaped = repr(short)
    return escaped if quoted else escaped[1:-1]


def markdown(text: str) -> str:
    """The text as Markdown shows it letter by letter: no tags, links, formulas or cells of a table."""
    return text if isinstance(text, Marked) else _MARKUP.sub(r"\\\g<0>", plain(text).replace("&", "&amp;"))


def drawn(text: str) -> str:
    """The text as matplotlib draws it letter by letter, not too long: dollar signs begin no formula."""
    return shown(text, 40, quoted=False).replace("$", r"\$")


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
