"""One self-contained HTML page about many runs: sections of tables and figures, and an explorer of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from operformer.errors import DataError
from operformer.files import write_bytes
from operformer.runs.report.explorer import Exhibit
from operformer.runs.report.page import Picture, render
from operformer.runs.report.tables import Table

EXPLORER = "explorer"
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Section:
    """A part of the page: plain text, in which an empty line ends a paragraph, then tables, then pictures."""

    anchor: str  # its address on the page: a word, as in page.html#anchor
    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()

    @property
    def paragraphs(self) -> list[str]:
        """The text, one paragraph each."""
        return split_paragraphs(self.text)


def write_reproduction(
    title: str, lead: str, sections: Sequence[Section], exhibits: Sequence[Exhibit], path: Path
) -> int:
    """Write the page; its size in bytes."""
    anchors = [EXPLORER, *(section.anchor for section in sections)]
    for anchor in anchors:
        if anchors.count(anchor) > 1:
            raise DataError(f"two sections have the anchor {anchor!r}; give them anchors of their own")
    values = {"title": title, "lead": split_paragraphs(lead), "sections": sections}
    page = render("reproduction.html", values, exhibits, TEMPLATES).encode()
    write_bytes(path, page)
    return len(page)


def split_paragraphs(text: str) -> list[str]:
    """Pieces of a text between empty lines."""
    return [piece.strip().replace("\n", " ") for piece in text.split("\n\n") if piece.strip()]
