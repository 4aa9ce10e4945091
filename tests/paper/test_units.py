"""Standardised errors of records that had none: by the same samples, drawn and standardised here by hand."""

import pytest
from synthetic import record

from operformer.evaluation.errors import assess
from operformer.evaluation.standard import Outputs
from operformer.problems import LAWS, Darcy
from paper.archive import keep, read_archive
from paper.units import COARSE, standardise_records


def test_records_get_the_errors_that_an_evaluation_would_have_given(tmp_path):
    for name in ("controlled-ode", "lorenz-yz", "kolmogorov-416-fno"):
        keep(record(name, "same-operator", 1e-2), tmp_path)
    before = {path: path.read_text() for path in tmp_path.rglob("*.json")}
    told = []
    assert standardise_records(tmp_path, told.append) == (2, 1)
    assert "lorenz-yz: not measured" in next(line for line in told if "lorenz-yz" in line)
    archive = read_archive(tmp_path)["same-operator"]
    found = archive["controlled-ode"][0].trained
    law, k = LAWS["controlled-ode"], 3
    outputs = Outputs.of(law.sample(8000, 200))
    (sample,) = law.sample(1, 200, first=9000 + k).blocks(1)
    off = sample.z * (1 + found.errors[k])  # a prediction of just this relative error
    assert found.standardised_errors[k] == pytest.approx(
        assess(off, sample, "1x", outputs=outputs).standardised_errors[0], rel=1e-3
    )
    (flow,) = archive["kolmogorov-416-fno"]  # whose mean is zero
    assert flow.trained.standardised_errors == flow.trained.errors
    assert archive["lorenz-yz"][0].trained.standardised is None
    for path, text in before.items():  # what a record said, it says to the last digit
        assert [line for line in text.splitlines() if line not in path.read_text()] in ([], [' "outputs": {},'])


def test_a_coarse_mean_is_that_of_the_fine_samples():
    """The page says that means at so few points are off by at most 0.2 %."""
    law = Darcy()
    coarse, fine = (Outputs.of(law.sample(6, n)).mean[0] for n in (COARSE, 4 * COARSE))
    assert coarse == pytest.approx(fine, rel=2e-3)
