"""The page of sections: self-contained, in order, escaped; its data cannot end its script."""

import json
import re
from html.parser import HTMLParser

import pytest

from operformer.errors import DataError
from operformer.runs.report.explorer import explorer_data
from operformer.runs.report.page import Picture
from operformer.runs.report.tables import Table
from operformer.text import plain
from paper.page import Section, write_reproduction

TABLE = Table("Errors", ("operator", "median"), (("FANO", "1.23%"), ("", "4.5%")))
PICTURE = Picture("data:image/svg+xml;base64,AAAA", "A caption.")
SHAPES = {"1x": (13, 7), "irregular": (8, 5)}


class Outline(HTMLParser):
    """Tags, attributes and texts in their order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.pieces, self.data = [], [], ""
        self.within_data = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.within_data = dict(attributes).get("type") == "application/json"

    def handle_data(self, data):
        if self.within_data:
            self.data += data
        elif data.strip():
            self.pieces.append(data.strip())

    def handle_endtag(self, tag):
        self.within_data = False


@pytest.fixture
def write(tmp_path):
    def written(*sections, title="A title", lead="Some words.", exhibits=()):
        path = tmp_path / "page.html"
        size = write_reproduction(title, lead, sections, exhibits, path)
        assert size == path.stat().st_size
        return path.read_text(encoding="utf-8")

    return written


def test_sections_stand_in_order_with_what_they_have(write):
    sections = [Section("one", "First", "Para one.\n\nPara\ntwo.", (TABLE,), (PICTURE,)), Section("two", "Second")]
    page = Outline(write(*sections, lead="Lead one.\n\n\nLead two."))
    start = page.pieces.index("Lead one.")
    expected = ["Lead one.", "Lead two.", "First", "Para one.", "Para two.", "Errors", "operator", "median", "FANO"]
    expected += ["1.23%", "4.5%", "A caption.", "Second"]
    assert page.pieces[start : start + len(expected)] == expected
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    anchors = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert links == ["#one", "#two"]
    assert anchors == ["one", "two"]


def test_the_explorer_holds_its_data(write, make_exhibit):
    exhibits = [make_exhibit("flow", "A", 0.1, SHAPES)]
    page = Outline(write(Section("one", "First"), exhibits=exhibits))
    assert json.loads(page.data) == json.loads(json.dumps(explorer_data(exhibits)))
    assert [attributes["href"] for tag, attributes in page.tags if tag == "a"] == ["#explorer", "#one"]


NASTY = "</script><script>alert(1)</script><!-- ' \" & \u2028 {{ 7 * 7 }}"


def test_names_cannot_end_the_script_or_the_markup(write, make_exhibit):
    exhibit = make_exhibit(NASTY, NASTY, 0.1, SHAPES, inputs=(NASTY,), absent={"graded": NASTY})
    section = Section("one", NASTY, NASTY, (Table(NASTY, (NASTY,), ((NASTY,),)),), (Picture("data:,", NASTY),))
    page = Outline(write(section, title=NASTY, lead=NASTY, exhibits=[exhibit]))
    (problem,) = json.loads(page.data)["problems"]
    assert (problem["name"], problem["inputs"]) == (plain(NASTY), [plain(NASTY)])
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert page.pieces.count(plain(NASTY)) >= 5


def test_nothing_is_fetched(write, make_exhibit):
    text = write(Section("one", "First", "", (), (PICTURE,)), exhibits=[make_exhibit("flow", "A", 0.1, SHAPES)])
    assert not re.search(r"https?://|url\(|@import|\bfetch\(|XMLHttpRequest|import\(", text)
    for tag, attributes in Outline(text).tags:
        assert tag not in ("link", "iframe", "object", "embed")
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("href", "#").startswith("#")
    assert "default-src 'none'" in text


def test_two_sections_cannot_have_one_anchor(write):
    with pytest.raises(DataError, match="two sections have the anchor 'one'"):
        write(Section("one", "First"), Section("one", "Second"))
    with pytest.raises(DataError, match="the anchor 'explorer'"):
        write(Section("explorer", "First"))
