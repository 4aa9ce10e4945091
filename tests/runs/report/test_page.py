"""The page: self-contained, well-formed, escaped, and its numbers are those of the evaluation."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from operformer.errors import DataError, ResourceError, UsageError
from operformer.evaluation.face_jumps import AxisJumps, FaceJumps
from operformer.problems import Lorenz63
from operformer.runs.report import page
from operformer.runs.report.page import summary, write_page
from operformer.runs.report.tables import error_table, settings_table

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Reader(HTMLParser):
    """Tags in balance, addresses, text, and the tables as rows of cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses, self.text, self.tables = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "srcset", "action", "data")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


@pytest.fixture
def read(tmp_path):
    def write_and_read(*runs):
        write_page(runs, tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        reader = Reader(text)
        assert reader.open == []
        return text, reader

    return write_and_read


@pytest.fixture
def plain_pictures(monkeypatch):
    """Pictures cost time; tests that do not look at them take these."""
    monkeypatch.setattr(page, "to_svg", lambda figure: "<svg/>")


def test_nothing_is_fetched_and_nothing_runs(make_run, read):
    text, reader = read(make_run(), make_run(factor=2.0, plain=True))
    assert len(reader.addresses) >= 4
    assert all(address.startswith("data:image/svg+xml;base64,") for address in reader.addresses)
    assert not {"script", "link", "iframe", "object", "embed"} & set(reader.tags)
    assert not re.search(r"https?://|url\(|@import", text)


def test_the_pictures_are_whole_and_fetch_nothing_either(make_run, read):
    _, reader = read(make_run())
    for address in reader.addresses:
        picture = base64.b64decode(address.partition(",")[2], validate=True).decode()
        root = ElementTree.fromstring(picture)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5
        for element in root.iter():
            for name, value in element.attrib.items():
                if name.endswith("href"):
                    assert value.startswith("#")


@pytest.mark.usefixtures("plain_pictures")
def test_the_tables_are_those_of_the_evaluation(make_run, read):
    runs = [make_run(), make_run(factor=2.0, plain=True)]
    _, reader = read(*runs)
    errors, settings = reader.tables
    for found, table in ((errors, error_table(runs)), (settings, settings_table(runs))):
        assert [tuple(row) for row in found] == [table.header, *table.rows]
    assert ["training grid", "11", "TNO", "2.50%", "3.00%", "6.00%", "1.00"] in errors


@pytest.mark.usefixtures("plain_pictures")
def test_one_picture_for_each_irregular_grid_and_run(make_run, read):
    _, reader = read(make_run())
    assert len(reader.addresses) == 5  # resolution, three grids, training
    _, reader = read(make_run(), make_run(factor=2.0, plain=True))
    assert len(reader.addresses) == 7
    captions = [text for text in reader.text if "median and of worst" in text]
    assert len(set(captions)) == len(captions) == 5


@pytest.mark.usefixtures("plain_pictures")
def test_patches_have_a_picture_of_their_faces(make_run, read):
    run = make_run(labels=("1x",))
    faces = FaceJumps((2,), (AxisJumps(0, 0.6, 0.2, 0.5, 0.4),))
    _, reader = read(replace(run, evaluations=[replace(run.evaluations[0], jumps=faces)]))
    assert sum("at the faces of its patches" in text for text in reader.text) == 1
    assert len(reader.addresses) == 4  # resolution, one grid, faces, training


def test_the_summary_says_what_came_out(make_run):
    (sentence,) = summary([make_run()])
    assert "TNO: median error 2.50% on the grid it was trained on" in sentence
    assert "; at half to double that resolution at most 1.50 times" in sentence
    assert "1.50 times on the irregular grid; 1.50 times on the graded grid." in sentence
    (sentence,) = summary([make_run(labels=("0.5x", "1x"))])
    assert sentence.endswith("; at 0.5 to 1 times that resolution at most 1.50 times as much.")
    (sentence,) = summary([make_run(labels=("1x",))])
    assert sentence.endswith("; one grid only, because the operator takes no other.")


@pytest.mark.usefixtures("plain_pictures")
def test_the_page_repeats_the_summary(make_run, read):
    runs = [make_run(), make_run(factor=2.0, plain=True)]
    _, reader = read(*runs)
    for sentence in summary(runs):
        assert sentence in reader.text


def test_runs_of_different_problems_are_refused(make_run, tmp_path):
    one = make_run()
    others = [
        make_run(name="controlled-ode"),
        make_run(problem=Lorenz63(recover=("z",))),
        make_run(problem=Lorenz63(rho=29.0)),
        make_run(data=replace(one.experiment.data, seed=1)),
    ]
    for other in others:
        with pytest.raises(UsageError, match="one problem and one data set"):
            write_page([one, other], tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("plain_pictures")
def test_runs_that_were_evaluated_on_different_grids_are_refused(make_run, tmp_path):
    with pytest.raises((UsageError, DataError)):
        write_page([make_run(), make_run(plain=True, labels=("0.5x", "1x", "2x"))], tmp_path / "page.html")


@pytest.mark.usefixtures("plain_pictures")
def test_a_page_that_cannot_be_written_is_a_resource_error(make_run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot write"):
        write_page([make_run()], tmp_path / "file" / "page.html")


@pytest.mark.usefixtures("plain_pictures")
def test_the_same_runs_give_the_same_page(make_run, read):
    assert read(make_run())[0] == read(make_run())[0]
