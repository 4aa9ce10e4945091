"""Parameters at the paper's settings against the table of Section 6.2 and Appendix C; DESIGN.md has the differences."""

import warnings

import pytest
import torch

from operformer import TNO
from operformer.operators.baselines import AFNO, FNO, GalerkinTransformer
from paper import complexity
from paper.complexity import Setting

PAPER = Setting(in_channels=1, out_channels=1, dim=2, n_modes=(12, 12))
D = 128


def count(operator):
    return sum(p.numel() for p in operator.parameters())


def show(name, found, table):
    print(f"{name}: {found} parameters, {found:.2e}; the table has {table:.2e}")


def test_tno():
    found = count(TNO(2, 1, 1))
    show("TNO", found, 5.98e5)
    assert f"{found:.2e}" == "5.98e+05"
    assert found == complexity.parameters_tno(PAPER) + complexity.bias_parameters(PAPER, "TNO")


def test_afno():
    found = count(AFNO((64, 64), 1, 1))
    show("AFNO", found, 1.10e6)
    biases = D + 4 * (4 * D + D) + 4 * (2 * D + 2 * D)  # of the lift, the MLPs and the spectral MLPs
    norms = 4 * 2 * 2 * D
    assert found == complexity.parameters_afno(PAPER, 64 * 64) + biases + norms == 1088640
    assert f"{found:.1e}" == "1.1e+06"  # two digits agree, the table's third does not: 1.09


@pytest.mark.parametrize(("n_layers", "expected", "digits"), [(4, 403073, "4.03e+05"), (6, 604289, "6.04e+05")])
def test_galerkin(n_layers, expected, digits):
    """The table's number is that of six layers, the TNO's; the text says four."""
    found = count(GalerkinTransformer(2, 1, 1, n_layers=n_layers))
    show(f"GalerkinTransformer, {n_layers} layers", found, 6.04e5)
    maps = 3 * (D * D + D) + (D + 4 * 2) * D + D + 2 * (D * D + D)  # Q, K, V; W with the coordinates; feed-forward
    norms = 2 * 2 * D
    assert found == (3 * D + D) + n_layers * (maps + norms) + D + 1 == expected
    assert f"{found:.2e}" == digits


def test_fno():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("neuralop")
    operator = FNO(2, 1, 1)
    pairs = sum(p.numel() for p in operator.spectral)
    found = count(operator) - pairs // 2  # a complex number counted once, as numel does and the table
    show("FNO", found, 5.70e6)
    formula = complexity.parameters_fno(PAPER, d_fno=2 * D)
    skips = 4 * (D * D + D)  # a matrix beside each spectral convolution, a gate beside each MLP
    biases = 4 * D + 4 * (D // 2 + D) + (2 * D + D) + (2 * D + 1)  # convolutions, MLPs, lift, projection
    assert found == formula + skips + biases == 5705089
    assert 5.70e6 <= found < 5.71e6
    assert complexity.parameters_fno(PAPER) == 5603840  # Appendix C with d_FNO = 128
    assert torch.view_as_complex(operator.spectral[0]).shape == (D, D, 12, 7)
