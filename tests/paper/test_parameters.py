"""Parameters by lines against the modules themselves, against Appendix C and against the paper's table."""

import pytest
import torch

from paper.catalogue import find_row, rows
from paper.parameters import parameter_lines, parameters_of
from paper.recipes import find_run

NAMED = [
    pytest.param(e, id=f"{row.name}-{recipe}")
    for row in rows(recipe="authors")
    for recipe, e in (("smoke", row.smoke), ("authors", row.authors))
]


@pytest.mark.parametrize("experiment", NAMED)
def test_lines_add_up_to_the_module(experiment, need_neuralop):
    if experiment.operator["name"] == "FNO":
        need_neuralop()
    with torch.device("meta"):
        operator = experiment.make_operator()
    pairs = sum(p.numel() for p in operator.spectral) if experiment.operator["name"] == "FNO" else 0
    found = sum(p.numel() for p in operator.parameters()) - pairs // 2  # a complex number counts once
    assert found == operator.n_parameters
    assert found == sum(line.count for line in parameter_lines(experiment)) == parameters_of(experiment)


# Appendix C at the paper's settings with d = 2, d_u = d_z = 1, by hand.


def test_what_the_paper_prints():
    """To all digits for TNO and the Galerkin transformer of six layers; DESIGN.md says what is known of the others."""
    low = ("tno", "fno", "afno", "galerkin-layers-6")
    found = {name: parameters_of(find_run(f"darcy-64-{name}", "authors")) for name in low}
    printed = {name: find_row(f"darcy-64-{name}").printed.parameters for name in low}
    for name in ("tno", "galerkin-layers-6"):
        assert f"{found[name]:.2e}" == f"{printed[name]:.2e}"
    for name in ("fno", "afno"):
        assert abs(found[name] / printed[name] - 1) < 0.011
