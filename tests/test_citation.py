"""What CITATION.cff, the package's metadata and the code say of themselves is the same."""

import re
import tomllib
from pathlib import Path

import operformer

ROOT = Path(__file__).parent.parent
CITATION = (ROOT / "CITATION.cff").read_text()


def test_the_version_is_that_of_the_code():
    assert re.search(r"^version: (.*)$", CITATION, flags=re.MULTILINE)[1] == operformer.__version__


def test_the_paper_is_to_be_cited_first():
    _, paper = CITATION.split("preferred-citation:")
    assert 'title: "Continuum Attention for Neural Operators"' in paper
    assert re.findall(r"family-names: (\w+)", paper) == ["Calvello", "Kovachki", "Levine", "Stuart"]
    assert "preferred-citation" in CITATION.splitlines()[1]


def test_types_are_shipped():
    assert (Path(operformer.__file__).parent / "py.typed").is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "Typing :: Typed" in project["classifiers"]
