"""RESULTS.md: numbers of synthetic records by hand, and the repository's own against its records."""

import re
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from synthetic import pictured, record

from operformer.evaluation.face_jumps import AxisJumps, FaceJumps
from operformer.evaluation.rollout import Rollout
from operformer.runs.experiment import parse
from paper.archive import keep, read_archive
from paper.protocol import PROTOCOLS
from paper.recipes import RECIPES
from paper.results_page import SECTIONS, results_page, write_results_page
from paper.targets import target_table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    for given in (
        record("darcy-64-tno", "paper", 6e-3, seconds=217),
        *(record("darcy-64-tno", "best", median, seed) for seed, median in enumerate((2e-3, 3e-3, 4e-3))),
        record("piecewise-416-vitno", "paper", 8e-3),
        record("piecewise-416-vitno-width-32", "paper", 9e-3),
        record("piecewise-416-fano", "paper", 7e-3, is_clean=False),
    ):
        keep(given, folder / "results")
    (folder / "results" / "figures").mkdir()
    (folder / "results" / "figures" / "best-gone.svg").write_text("")  # of a record that is no longer there
    write_results_page(folder / "results", folder / "RESULTS.md")
    return folder, (folder / "RESULTS.md").read_text()


def table(page, title, number=0):
    """The rows of a section's table as dictionaries."""
    text = page[1].split(f"## {title}\n")[1].split("\n## ")[0]
    lines = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)[number].splitlines()
    header, _, *rows = ([cell.strip() for cell in row.strip("|").split("|")] for row in lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_the_numbers_are_those_of_the_records(page):
    row, *others, ours = table(page, "Darcy flow, lognormal, 64 × 64")
    assert row == {
        "problem": "Darcy flow, lognormal", "operator": "TNO",
        "in print: parameters": "5.98e+05", "in print: median": "1.19 %",
        "paper: median": "0.600 %", "paper: mean": "0.600 %", "paper: worst": "1.20 %", "paper: H1 median": "6.00 %",
        "paper: parameters": "598,145", "paper: epochs": "20", "paper: training": "217 s",
        # Medians of 0.2, 0.3 and 0.4 %: the standard deviation of three seeds is 0.1 %.
        "best: median": "0.300 % ± 0.100 %", "best: mean": "0.300 % ± 0.100 %", "best: worst": "0.600 % ± 0.200 %",
        "best: H1 median": "3.00 % ± 1.00 %", "best: seeds": "3", "best: parameters": "598,145",
        "best: epochs": "20", "best: training": "100 s",
    }  # fmt: skip
    assert [other["paper: median"] for other in others] == ["not run"] * 4
    assert {other["best: median"] for other in others} == {""}  # no recipe
    assert [other["in print: median"] for other in others] == ["1.96 %", "2.57 %", "7.30 %", "7.30 %"]
    assert ours["operator"] == "FANO, one patch, no attention, cosines, isotropic, smoothing"
    assert (ours["in print: median"], ours["paper: median"], ours["best: median"]) == ("", "", "not run")


def test_operators_that_are_not_those_of_the_row_are_named():
    names = ("darcy-64-tno", "kolmogorov-416-fano", "kolmogorov-416-fano-smoothing")
    best = {name: [record(name, "best", 5e-4)] for name in names}
    said = re.findall(r"Operators of the best recipe: (.*)", results_page({"paper": {}, "best": best}, [], Path()))
    assert said == [
        "that of kolmogorov-416-fano is FANO, one patch, no attention; "
        "that of kolmogorov-416-fano-smoothing is FANO, 2 × 2 patches, smoothing."
    ]


def test_flows_that_were_followed_stand_beside_the_forecast_of_no_change():
    rollout = Rollout((0.1, 0.2), ((0.01, 0.03), (0.04, 0.06)), ((0.2, 0.4), (0.5, 0.5)), None)
    vitno, fano = (record(f"kolmogorov-416-{operator}", "paper", 1e-2) for operator in ("vitno", "fano"))
    followed = replace(fano, rollout=rollout)
    runs = {"kolmogorov-416-vitno": [vitno], "kolmogorov-416-fano": [followed, fano]}
    text = results_page({"paper": runs, "best": {}}, [], Path())
    assert "Median error of 2 test draws, each output the next input (paper, of several seeds the first):" in text
    rows = table((None, text), "Kolmogorov flow, 416 × 416", 2)
    assert rows == [
        {"operator": "FANO", "t = 0.1": "2.00 %", "t = 0.2": "5.00 %"},
        {"operator": "no change", "t = 0.1": "30.0 %", "t = 0.2": "50.0 %"},
    ]


def test_errors_that_jump_at_faces_stand_beside_those_inside():
    given = {name: record(f"kolmogorov-416-fano{name}", "best", 1e-2) for name in ("", "-patches", "-smoothing")}
    jumps = {"-patches": AxisJumps(0, 6e-3, 2e-3, 5e-2, 5e-2), "-smoothing": AxisJumps(0, 3e-3, 2e-3, 5e-2, 5e-2)}
    for name, along in jumps.items():
        measured = tuple(replace(there, jumps=FaceJumps((2, 2), (along,))) for there in given[name].measured)
        given[name] = replace(given[name], measured=measured)
    best = {f"kolmogorov-416-fano{name}": [one] for name, one in given.items()}
    text = results_page({"paper": {}, "best": best}, [], Path())
    rows = table((None, text), "Kolmogorov flow, 416 × 416", 2)
    assert [(row["operator"], row["ratio"], row["ratio of the truth"]) for row in rows] == [
        ("FANO, 2 × 2 patches, smoothing", "1.50", "1.00"),
        ("FANO, 2 × 2 patches", "3.00", "1.00"),
    ]


def test_errors_by_resolution_have_their_ratio(page):
    (row,) = table(page, "Darcy flow, lognormal, 64 × 64", 1)
    assert row == {
        "problem": "Darcy flow, lognormal", "operator": "TNO", "0.5x": "1.80 % (3.00)", "0.75x": "1.20 % (2.00)",
        "1x": "0.600 %", "1.5x": "0.900 % (1.50)", "2x": "1.50 % (2.50)", "graded": "2.40 % (4.00)",
    }  # fmt: skip
    (best,) = table(page, "Darcy flow, lognormal, 64 × 64", 2)
    assert best["2x"] == "0.500 % (2.50)"
    assert "(best, of several seeds the first):" in page[1]


def test_targets_and_widths_are_there(page):
    targets = {row["target"]: row[""] for row in table(page, "Targets")}
    assert list(targets.values()) == ["reached", "reached", "not run", "reached", "not run", "not run", "not run"]
    assert [row["operator"] for row in table(page, "Other widths")] == ["ViTNO, width 32"]
    assert table(page, "Targets", 1)[0] == {
        "run": "darcy-64-tno", "paper: L2": "3.00 at 0.5x: not reached", "paper: H1": "3.00 at 0.5x",
        "best: L2": "3.00 at 0.5x: not reached", "best: H1": "3.00 at 0.5x",
    }  # fmt: skip


def test_every_record_has_its_row_and_its_file(page):
    rows = table(page, "Records")
    assert len(rows) == 7
    for row in rows:
        (path,) = re.findall(r"\((.*)\)", row["record"])
        assert (page[0] / path).is_file()
        assert (row["data"], row["evaluation"], row["device"], row["torch"]) == ("7 s", "11 s", "a GPU", "2.13.0")
        assert "training.schedule=one-cycle" in row["other than in the catalogue"]
    commits = {row["record"].split("]")[0]: row["commit"] for row in rows}
    assert commits["[paper/piecewise-416-fano"] == "abc123, changed"
    assert commits["[paper/darcy-64-tno"] == "abc123"


def test_the_figures_are_drawn(page):
    named = re.findall(r"!\[.*\]\((.*)\)", page[1])
    assert {Path(name).name for name in named} == {
        "paper-superresolution_lognormal_left.svg", "paper-superresolution_piecewise.svg",
        "paper-parameter_accuracy.svg", "paper-evaluation_cost_accuracy.svg", "best-superresolution_lognormal_left.svg",
    }  # fmt: skip
    assert sorted(p.name for p in (page[0] / "results/figures").iterdir()) == sorted(Path(name).name for name in named)
    for name in named:
        assert "<svg" in (page[0] / name).read_text()


def test_one_operator_is_no_figure_of_costs_and_two_of_one_width_are_called_so(tmp_path):
    keep(record("piecewise-416-vitno", "paper", 8e-3), tmp_path / "results")
    write_results_page(tmp_path / "results", tmp_path / "RESULTS.md")
    assert [p.name for p in (tmp_path / "results/figures").iterdir()] == ["paper-superresolution_piecewise.svg"]
    said = re.compile(r"Figure \*\*(\w+)\*\*, protocol paper.* the others have not been trained")
    for name, found in (
        ("piecewise-416-fano", ["parameter_accuracy", "evaluation_cost_accuracy"]),
        ("piecewise-416-vitno-width-32", []),
    ):
        keep(record(name, "paper", 8e-3), tmp_path / "results")
        write_results_page(tmp_path / "results", tmp_path / "RESULTS.md")
        assert said.findall((tmp_path / "RESULTS.md").read_text()) == found
        assert "paper-parameter_accuracy.svg" in (tmp_path / "RESULTS.md").read_text()


def test_best_recipes_of_two_widths_are_not_called_one(tmp_path):
    for name in ("piecewise-416-vitno", "piecewise-416-fano"):
        keep(record(name, "best", 8e-3), tmp_path / "results")
    write_results_page(tmp_path / "results", tmp_path / "RESULTS.md")
    assert "best-parameter_accuracy.svg" in (tmp_path / "RESULTS.md").read_text()
    assert "have not been trained" not in (tmp_path / "RESULTS.md").read_text()


def test_a_fano_alone_is_no_figure_of_extensions(tmp_path):
    keep(record("kolmogorov-416-fano", "paper", 8e-3), tmp_path / "results")
    write_results_page(tmp_path / "results", tmp_path / "RESULTS.md")
    assert [p.name for p in (tmp_path / "results/figures").iterdir()] == ["paper-superresolution_KF.svg"]
    keep(record("kolmogorov-416-fano-extension", "paper", 8e-3), tmp_path / "results")
    write_results_page(tmp_path / "results", tmp_path / "RESULTS.md")
    assert "paper-superresolution_KF_patching.svg" in (tmp_path / "RESULTS.md").read_text()


def test_samples_are_drawn_of_the_first_run_that_has_them(tmp_path):
    keep(record("kolmogorov-416-fano", "best", 5e-4), tmp_path / "results")  # which has none
    keep(pictured("kolmogorov-416-fano-patches", 3), tmp_path / "results")
    write_results_page(tmp_path / "results", tmp_path / "RESULTS.md")
    drawn = (tmp_path / "results/figures/best-FANO_NS_samples.svg").read_text()
    assert "protocol: best; Kolmogorov flow, FANO, 2 × 2 patches" in drawn


def test_every_recipe_has_its_row():
    shown = [name for names in SECTIONS.values() for name in names]
    assert {name for recipes in RECIPES.values() for name in recipes} == set(shown)
    assert len(shown) == len(set(shown))


def test_the_repositorys_page_is_what_its_records_give():
    folder = ROOT / "results"
    found = (ROOT / "RESULTS.md").read_text()
    figures = re.findall(r"^!\[.*\]\(results/figures/(.*)\)$", found, flags=re.MULTILINE)
    assert found == results_page(read_archive(folder), figures, Path("results")), "run: operformer report results"
    assert sorted(path.name for path in (folder / "figures").glob("*.svg")) == sorted(figures)


def test_the_repositorys_figures_are_those_of_its_records(tmp_path):
    copytree(ROOT / "results", tmp_path / "results")
    write_results_page(tmp_path / "results", tmp_path / "RESULTS.md")
    assert (tmp_path / "RESULTS.md").read_text() == (ROOT / "RESULTS.md").read_text()


def test_the_readme_has_the_targets():
    readme = (ROOT / "README.md").read_text()
    for target, known, _, _, here, *_ in target_table(read_archive(ROOT / "results")).rows:
        assert f"| {target} | {known} | {here} |" in readme


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_repositorys_records_are_of_the_recipes(protocol):
    for name, records in read_archive(ROOT / "results")[protocol].items():
        for found in (parse(one.settings) for one in records):
            training, data = replace(found.training, seed=0), replace(found.data, folder="")  # where its pairs lay
            assert replace(found, training=training, data=data) == RECIPES[protocol][name], name
