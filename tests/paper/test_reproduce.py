"""Studies from trainings to pages: everything is there, nothing is done twice, what fails is named."""

import re
from dataclasses import replace
from html import unescape

import pytest
import torch
from strict_latex import read_table
from tiny import EXPERIMENTS_OF_TINY, NAMES, TINY, line, plane

from operformer.errors import ResourceError
from operformer.operators.baselines import fno
from operformer.runs import read_run
from paper.commands import finish
from paper.drawing import draw
from paper.record import read_results
from paper.reproduce import reproduce
from paper.studies import STUDIES
from paper.tables import SMOKE


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def drawn(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    tables = draw(made[1], [TINY], folder)
    return folder, {made.name: table for made, table in zip(TINY.tables, tables, strict=True)}


def test_the_whole_tree_is_there(drawn):
    figures = [f.name for f in TINY.figures if f.name != "nothing"]  # its run was not made
    expected = {f"tables/{t.name}.{kind}" for t in TINY.tables for kind in ("md", "tex")}
    expected |= {f"figures/{name}.{kind}" for name in figures for kind in ("svg", "png")}
    assert files(drawn[0]).keys() == expected | {"index.html"}


def test_tables_hold_the_numbers_of_the_runs(made, drawn):
    run = read_run(made[0] / "runs" / NAMES[1])
    table = drawn[1]["accuracy"]
    (row,) = (row for row in table.rows if row[1].startswith("FANO"))
    cells = dict(zip(table.header, row, strict=True))
    assert cells["problem"] == "Darcy flow, lognormal"
    assert cells["parameters"] == f"{run.parameters:,}"
    assert float(cells["median"].removesuffix(" %")) == pytest.approx(100 * run.evaluation("1x").median, rel=5e-3)
    assert float(cells["H1 median"].removesuffix(" %")) == pytest.approx(100 * run.evaluation("1x").h1.median, rel=5e-3)
    assert cells["median (paper)"] == "0.839 %"
    (lorenz,) = (row for row in table.rows if row[1].startswith("TNO"))
    cells = dict(zip(table.header, lorenz, strict=True))
    assert (cells["median (paper)"], cells["worst (paper)"]) == ("< 1 %", "just below 10 %")


def test_the_results_hold_what_the_runs_hold(made):
    folder, results, _ = made
    for name in NAMES:
        run, record = read_run(folder / "runs" / name), results.runs[name]
        assert {
            there.label: (there.errors, there.h1_errors, there.spectrum, there.jumps) for there in record.measured
        } == {e.label: (e.errors, e.h1_errors, e.spectrum, e.jumps) for e in run.evaluations}
        assert record.seconds == pytest.approx(run.seconds, abs=1e-3)
        assert record.settings["training"]["batch_size"] == EXPERIMENTS_OF_TINY[name].training.batch_size
        assert record.made["torch"] == results.made["torch"] == torch.__version__
    assert results.runs[NAMES[1]].trained.jumps is not None
    assert results.costs["TNO"].parameters == 598145


def test_drawing_again_from_the_file_alone_gives_the_same_bytes(made, drawn, tmp_path):
    copy = tmp_path / "elsewhere" / "results.json"
    copy.parent.mkdir()
    copy.write_bytes((made[0] / "results.json").read_bytes())
    draw(read_results(copy), [TINY], tmp_path / "again")
    assert files(tmp_path / "again") == files(drawn[0])


def test_smoke_scale_is_said_everywhere(made, drawn, tmp_path):
    folder, tables = drawn
    assert all(SMOKE in table.title for name, table in tables.items() if name != "cost")
    page = unescape((folder / "index.html").read_text())
    assert page.count(SMOKE) + page.count(SMOKE.capitalize()) >= 8
    for path in folder.glob("figures/*.svg"):
        assert "smoke scale" in path.read_text(), path
    draw(replace(made[1], recipe="authors"), [TINY], tmp_path)
    assert "smoke" not in (tmp_path / "tables/accuracy.md").read_text()
    assert "smoke" not in (tmp_path / "figures/images.svg").read_text()


def test_tables_are_latex_and_markdown(drawn):
    folder, tables = drawn
    for name, table in tables.items():
        rows = read_table((folder / "tables" / f"{name}.tex").read_text())
        assert len(rows) == 1 + len(table.rows)
        assert [cell for row in rows for cell in row].count("") == sum(cell == "" for row in table.rows for cell in row)
        lines = (folder / "tables" / f"{name}.md").read_text().splitlines()
        assert lines[0] == table.title
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines[2:]} == {len(table.header) + 1}
    text = (folder / "tables" / "accuracy.tex").read_text()
    assert r"Errors \& more, 100 \%" in text
    assert r"\label{tab:accuracy_a}" in text


def test_what_is_done_is_not_done_again(made):
    folder, results, _ = made
    before, told = files(folder / "runs"), []
    again = reproduce([TINY], EXPERIMENTS_OF_TINY, "smoke", folder, 2, told.append)
    assert told == ["2 of 2 runs are done already"]
    assert files(folder / "runs") == before
    assert again.runs == results.runs


def test_failures_are_named_and_the_rest_is_made(made, tmp_path, monkeypatch, capsys):
    def missing():
        raise ResourceError("FNO is neuraloperator's; try: pip install 'operformer[baselines]'")

    monkeypatch.setattr(fno, "_import_fno", missing)
    network = {"name": "FNO", "hidden_channels": 4, "n_layers": 1, "n_modes": 4}
    absent = {name: replace(plane(name), operator=network) for name in ("darcy-416-fno", "piecewise-416-fno")}
    experiments = {
        "lorenz-yz": line("lorenz-yz", learning_rate=1e30),
        "darcy-416-fano": EXPERIMENTS_OF_TINY["darcy-416-fano"],
        **absent,
    }
    names = tuple(experiments)
    study = replace(
        TINY,
        runs=names,
        tables=tuple(
            replace(t, make=t.make.__class__(t.make.func, **(t.make.keywords | {"names": names})))
            for t in TINY.tables[:3]
        ),
    )
    results = reproduce([study], experiments, "smoke", tmp_path, 1, lambda line: None)
    assert list(results.runs) == ["darcy-416-fano"]
    code = finish(results, [study], tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert code == 4
    assert len(lines) == 2
    assert lines[0].startswith("operformer: lorenz-yz failed: the loss or its gradient is not finite")
    assert lines[1] == (
        "operformer: not run: darcy-416-fno, piecewise-416-fno: FNO is neuraloperator's; "
        "try: pip install 'operformer[baselines]'"
    )
    table = (tmp_path / "tables/accuracy.md").read_text()
    assert len(re.findall("FNO .*not run", table)) == 2
    assert "2.38 %" in table  # the paper's column stays
    assert "operformer[baselines]" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "figures/images.png").is_file()
    assert not (tmp_path / "figures/curves.png").exists()
    only_absent = replace(results, failures=tuple(f for f in results.failures if f.is_missing_package))
    assert finish(only_absent, [study], tmp_path) == 0


def test_every_study_can_be_drawn_without_a_single_run(made, tmp_path):
    _, results, _ = made
    settings = plane("x").to_mapping()
    names = {name for study in STUDIES.values() for name in study.runs}
    nothing = replace(results, runs={}, views={}, absent={name: settings | {"name": name} for name in names})
    tables = draw(nothing, list(STUDIES.values()), tmp_path)
    assert len(tables) == sum(len(study.tables) for study in STUDIES.values())
    assert not (tmp_path / "figures").exists()
    for study in STUDIES.values():
        for table in study.tables:
            read_table((tmp_path / "tables" / f"{table.name}.tex").read_text())


def test_another_experiment_in_the_folder_is_a_failure_of_its_run(made, capsys):
    folder, _, _ = made
    experiments = EXPERIMENTS_OF_TINY | {NAMES[0]: line(NAMES[0], epochs=2)}
    results = reproduce([TINY], experiments, "smoke", folder, 1, lambda line: None)
    (failure,) = results.failures
    assert (failure.name, failure.exit_code) == (NAMES[0], 2)
    assert "training.epochs differs" in failure.reason
