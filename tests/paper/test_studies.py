"""The studies cover every table and figure of Section 6 and Appendix C."""

import pytest

from operformer.errors import UsageError
from paper.catalogue import rows
from paper.studies import STUDIES, choose_studies

TABLES = "2d_median_errors_low evaluation_cost 2d_median_errors_high parameter_complexity1 evaluation_cost1"
FIGURES = """xtoyz superresolution_1d irregular irregular_t parameter_accuracy evaluation_cost_accuracy
FANO_lognormal_samples FANO_piecewise_samples superresolution_lognormal superresolution_piecewise FANO_NS_samples
superresolution_KF FANO_NS_samples_smoothing superresolution_KF_patching"""


def test_every_label_of_the_paper_is_there():
    labels = {made.label for study in STUDIES.values() for made in (*study.tables, *study.figures)}
    assert labels >= {f"tab:{name}" for name in TABLES.split()}
    assert labels >= {f"fig:{name}" for name in FIGURES.split()}


def test_every_run_of_the_paper_is_in_a_study():
    assert {row.name for row in rows(recipe="authors")} == {name for study in STUDIES.values() for name in study.runs}


def test_studies_are_chosen_by_name_in_the_papers_order():
    assert [study.name for study in choose_studies(["irregular", "lorenz"])] == ["lorenz", "irregular"]
    assert choose_studies(["cost", "all"]) == tuple(STUDIES.values())


@pytest.mark.parametrize(("names", "part"), [([], "lorenz, time-resolution"), (["lorentz"], "did you mean lorenz?")])
def test_what_is_no_study_is_refused(names, part):
    with pytest.raises(UsageError, match=part.replace("?", r"\?")):
        choose_studies(names)
