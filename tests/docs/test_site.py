"""The site holds what it says: pages, links, formulas, docstrings, and nothing from outside."""

import html
import inspect
import re
from html.parser import HTMLParser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from urllib.parse import unquote, urlsplit

import project_pages
import pytest

import operformer

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LANGUAGES = {"python", "sh", "text", "py", "included"}  # the first two run as they are printed
# The source of every page; pages lie in the site as their names say.
SOURCES = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md")) if "making" not in path.parts}
SOURCES |= {page: ROOT / source for source, page in project_pages.SOURCES.items()}


class Links(HTMLParser):
    """What a page points to, what can be pointed to in it, and its words."""

    def __init__(self, text):
        super().__init__()
        self.links, self.fetched, self.anchors, self.words = [], [], set(), []
        self._silent = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self._silent += tag in ("script", "style")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(given["href"])
        elif given.get("src"):
            self.fetched.append(given["src"])

    def handle_endtag(self, tag):
        self._silent -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._silent:
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


@pytest.fixture(scope="module")
def parsed(site, pages):
    return {path: Links(path.read_text()) for path in [*pages, site / "404.html"]}


def test_every_source_is_a_page_and_stands_in_the_navigation(site, pages, parsed):
    there = {path.relative_to(site).as_posix() for path in pages}
    assert there == {page.replace(".md", ".html") for page in SOURCES}
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in SOURCES if page not in navigation] == []
    for section in {"api", "operators", "problems"}:  # the first page of a section has the others beside it
        inside = sorted(page for page in there if page.startswith(f"{section}/"))
        first = site / inside[0]
        beside = {(first.parent / urlsplit(link).path).resolve() for link in parsed[first].links}
        assert {(site / page).resolve() for page in inside} <= beside
    text = parsed[site / "api" / "training.html"].text
    assert "decay of averaged weights, which are then validated and kept" in text
    assert "learning_rate" in text


def test_no_link_is_broken(parsed):
    count = 0
    for path, page in parsed.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data"):
                continue
            assert not parts.scheme, (path, link)
            if path.name == "404.html" and parts.path.startswith("/"):  # it is shown at any depth
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), (path, link)
            if parts.fragment and target in parsed and parts.fragment not in ("only-light", "only-dark"):
                assert unquote(parts.fragment) in parsed[target].anchors, (path, link)
            count += 1
    assert count > 1000


def test_nothing_is_fetched_from_outside(site, parsed):
    for path, page in parsed.items():
        assert [link for link in page.fetched if urlsplit(link).scheme not in ("", "data")] == [], path
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style
        assert "@import" not in style.read_text(), style


def test_formulas_became_mathml(site):
    total = 0
    for page, source in SOURCES.items():
        written = re.sub(r"```.*?```|`[^`\n]*`", "", source.read_text(), flags=re.DOTALL)
        displayed = written.count("$$") // 2
        inline = len(re.findall(r"\$[^$]+\$", re.sub(r"\$\$.*?\$\$", "", written, flags=re.DOTALL)))
        text = (site / page.replace(".md", ".html")).read_text()
        assert len(re.findall(r'<math[^>]*display="block"', text)) == displayed, source
        assert len(re.findall(r'<math[^>]*display="inline"', text)) == inline, source
        assert "arithmatex" not in text
        total += displayed + inline
    assert total > 60


@pytest.mark.parametrize(("name", "page"), [("DESIGN.md", "design.html"), ("CHANGELOG.md", "changelog.html")])
def test_documents_of_the_repository_are_pages_as_they_are(site, parsed, name, page):
    """Every word of them is there: Markdown takes none for a tag or a formula."""
    shown = re.sub(r"[\s¶]+", "", parsed[site / page].text)
    for line in re.sub(
        r"(?<=\])\([^)]*\)", "", (ROOT / name).read_text()
    ).splitlines():  # where a link leads is not shown
        if line.startswith("|---"):
            continue
        for words in re.split(r"[*`|#\[\]]+|^- ", line):
            assert re.sub(r"\s+", "", words) in shown, words


def test_the_front_page_is_the_readme_s(site, parsed):
    text = parsed[site / "index.html"].text
    assert "quadrature weights stand in the softmax" in text
    assert "graded: points crowd at the start, 101 points" in text
    assert "make demo" in text


def test_every_name_of_the_front_is_described_in_its_own_words(parsed):
    pages = {path: page for path, page in parsed.items() if path.parent.name == "api"}
    text = {path: page.text for path, page in pages.items()}
    for name in operformer.__all__:
        thing = getattr(operformer, name)
        place = f"{thing.__module__}.{thing.__qualname__}"
        (path,) = (path for path, page in pages.items() if place in page.anchors)
        said = re.sub(r"`+", "", inspect.getdoc(thing)).split("\n\n")
        for paragraph in said:
            is_section = paragraph.startswith(("Args:", "Returns:", "Example"))
            for words in (
                re.split(r"^    \w[\w, ]*: ", paragraph, flags=re.MULTILINE)[1:] if is_section else [paragraph]
            ):
                assert " ".join(words.split()) in text[path], (name, words)


def test_every_command_shows_its_help(site, parsed):
    from operformer.cli import app

    page = parsed[site / "commands.html"]
    commands = {name for name in app if not name.startswith("-")}
    assert len(commands) > 12
    assert commands <= page.anchors
    for name in commands:
        assert f"Usage: operformer {name}" in page.text


def test_programs_on_pages_are_marked(pages):
    """Fences have a language that says whether they run, so that none is left to guess."""
    for source in SOURCES.values():
        fences = re.findall(r"^```(.*)$", source.read_text(), flags=re.MULTILINE)
        assert {re.sub(r"\{.*\}", "included", fence) for fence in fences[::2]} <= LANGUAGES, source
        assert set(fences[1::2]) <= {""}, source


def test_the_search_index_knows_the_pages(site):
    index = html.unescape((site / "search" / "search_index.js").read_text())
    assert "Voronoi" in index
    assert "own-data.html" in index


def test_the_tables_of_the_page_about_speed_are_those_of_their_files():
    spec = spec_from_file_location("speed_tables", ROOT / "benchmarks" / "speed_tables.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "speed.md").read_text()
    assert module.with_tables(page, ROOT / "docs" / "speed") == page
