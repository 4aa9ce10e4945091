"""The card of an operator: front matter that the Hub reads, errors as they were recorded, the paper first."""

import re
from dataclasses import replace

import pytest

from operformer.sharing.card import card, write_card

huggingface_hub = pytest.importorskip("huggingface_hub")


def test_the_front_matter_is_what_the_hub_reads(make_run, tmp_path):
    run = make_run(name="lorenz-y")
    write_card(run, tmp_path / "README.md", "me/lorenz", licence="cc-by-4.0")
    data = huggingface_hub.ModelCard.load(tmp_path / "README.md").data
    assert (data.license, data.library_name) == ("cc-by-4.0", "operformer")
    assert {"neural-operator", "tno", "lorenz63"} <= set(data.tags)
    assert data.model_name == "lorenz-y"
    found = {result.metric_name: result.metric_value for result in data.eval_results}
    # Errors of 1, 2, 3 and 6 %: the median is 2.5 %, off the training grid 1.5 times as much.
    assert found["median relative L2 error, training grid"] == pytest.approx(0.025)
    assert found["median relative L2 error, graded grid"] == pytest.approx(0.0375)
    assert {result.dataset_name for result in data.eval_results} == {"Lorenz63"}


def test_it_says_no_licence_and_no_grid_that_nobody_gave(make_run):
    run = make_run(name="lorenz-y")
    assert "license" not in card(run)
    assert f"on {len(run.evaluations) - 1} others" in card(run)
    alone = replace(run, evaluations=[run.evaluation("1x")])
    assert "on the grid that it was trained on, and on no other" in card(alone)


def test_the_text_has_the_record(make_run):
    run = make_run(name="lorenz-y")
    text = card(run)
    data = run.experiment.data
    assert "12,345 parameters" in text
    assert re.search(r"\| training grid \| 11 \| TNO \| 2\.50% \| 3\.00% \| 6\.00% \| 1\.00 \|", text)
    assert re.search(r"\| graded grid \| 11 \| TNO \| 3\.75% ", text)
    assert (
        f"{data.train} samples at resolution {data.resolution}, 3 of {run.experiment.training.epochs} epochs in 3 s"
        in text
    )
    assert "| operator.hidden_channels |" in text
    assert text.count("@") == 1  # one entry of BibTeX, and the paper's
    assert "Continuum Attention for Neural Operators" in text.split("## Citation")[1]


def test_a_name_cannot_leave_its_quotes(make_run):
    text = card(make_run(), name='a"); import os; ("/b')
    assert r'from_pretrained("a\"); import os; (\"/b")' in text
