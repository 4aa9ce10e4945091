"""The formulas of Appendix C against the modules themselves and torch's own counter of operations."""

import re
from math import log2, prod, sqrt

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from operformer import FANO, TNO, Grid, ViTNO
from paper import complexity
from paper.complexity import COMPLEXITY, Setting


def make(name, s, n_heads=1):
    widths = {"hidden_channels": s.hidden_channels, "n_layers": s.n_layers, "n_heads": n_heads}
    if name == "TNO":
        return TNO(s.dim, s.in_channels, s.out_channels, **widths)
    kind = {"ViTNO": ViTNO, "FANO": FANO}[name]
    return kind(s.n_patches, s.n_modes, s.in_channels, s.out_channels, **widths, overlap=0)


def formula(what, name):
    return getattr(complexity, f"{what}_{name.lower()}")


def count(operator, grid, batch=1):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        operator(torch.ones(batch, operator.in_channels, *grid.shape), grid)
    return counter.get_total_flops()


# Parameters


@pytest.mark.parametrize("name", ["TNO", "ViTNO", "FANO"])
@pytest.mark.parametrize(
    "s",
    [
        Setting(3, 2, 1, 10, (4,), (5,), 1),
        Setting(1, 2, 2, 6, (2, 3), (2, 1), 3),
        Setting(2, 5, 3, 4, (2, 1, 3), (1, 2, 1), 2),
    ],
    ids=["1d", "2d", "3d"],
)
def test_parameters_and_biases_are_all_there_is(name, s):
    total = sum(p.numel() for p in make(name, s).parameters())
    assert total == formula("parameters", name)(s) + complexity.bias_parameters(s, name)


# Costs


@pytest.mark.parametrize(
    ("s", "points"),
    [
        (Setting(3, 2, 1, 8, (3,), (5,), 1), (7,)),
        (Setting(1, 2, 2, 6, (3, 3), (2, 3), 3), (5, 5)),
        (Setting(1, 2, 2, 6, (2, 3), (2, 3), 3), (6, 6)),
        (Setting(2, 1, 3, 4, (2, 2, 2), (1, 2, 1), 2), (3, 3, 3)),
        (Setting(2, 1, 3, 4, (1, 2, 3), (1, 2, 1), 2), (5, 5, 5)),
    ],
    ids=str,
)
def test_torch_counts_the_products_of_a_fano_in_coefficients(s, points):
    grid = Grid.uniform([n * p for n, p in zip(points, s.n_patches, strict=True)], kind="cells")
    cost = complexity.cost_fano_in_coefficients(s, prod(grid.shape))
    assert count(make("FANO", s, n_heads=2), grid, batch=3) == pytest.approx(3 * cost, rel=1e-12)


def test_a_layer_of_vitno_costs_what_the_table_says_and_the_other_product_of_attention():
    """8 d^2 N + 2 d N P + 4 d^2 N, and 2 d N P for the average."""
    shape, layers = (10, 12), []
    for n_layers in (1, 2):
        s = Setting(1, 1, 2, 6, (2, 2), (2, 3), n_layers)
        table = complexity.cost_vitno(s, 120)
        layers.append((count(make("ViTNO", s), Grid.uniform(shape, kind="cells")), table))
    counted, table = (layers[1][i] - layers[0][i] for i in range(2))
    assert counted == table + 2 * 6 * 120 * 6


def test_a_layer_of_tno_costs_what_the_table_says_and_the_other_product_of_attention():
    """8 d^2 N + 2 N^2 d + 4 d^2 N by the table; the counter sees attention in the plain kernel only."""
    s = [Setting(2, 3, 1, 8, n_layers=n_layers) for n_layers in (1, 2)]
    ends = 2 * 11 * (2 + 1) * 8 + 2 * 11 * 8 * 3
    assert complexity.cost_tno(s[0], 11) == ends + 12 * 64 * 11 + 2 * 11**2 * 8
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        counted = [count(make("TNO", setting), Grid.uniform(11)) for setting in s]
    # Both products; on a GPU the key has log w as one more channel, nine that are padded to 16.
    assert counted[1] - counted[0] == 12 * 64 * 11 + 2 * 2 * 11**2 * 8
    assert counted[0] == ends + counted[1] - counted[0]


def test_costs_by_hand():
    """N = 64 points, log2 sqrt(64) = 3, in P = 4 patches, log2 sqrt(16) = 2; d_model = 3."""
    s = Setting(1, 2, 2, 3, (2, 2), (2, 2), 1)  # d_u + d = 3, d_z = 2, k_max = 9
    lift = 6 * 15 * 64 * 2 / 2 + 4 * 9 * 3 * 5
    assert complexity.cost_vitno(s, 64) == lift + 2 * 64 * 3 * 2 + 12 * 9 * 64 + 2 * 3 * 64 * 4
    ends = 2 * 64 * 3 * 3 + 2 * 64 * 3 * 2
    layer = 45 * 3 * 64 * 2 + 3 * 9 * 4 * 15 + 6 * 64 * 9 + 2 * 3 * 64 * 4
    assert complexity.cost_fano(s, 64) == ends + layer
    fno = 2 * 64 * (3 + 6) * 128 + 2 * 64 * 128 * 2 + 4 * (15 * 3 * 64 * 3 + 4 * 15 + 2 * 64 * 9)
    assert complexity.cost_fno(s, 64) == fno
    afno = ends + 4 * (16 * 9 * 64 + 15 * 64 * 3 * 3 + 6 * 64 * (18 / 8 - 3))
    assert complexity.cost_afno(s, 64) == pytest.approx(afno)


# The formulas in the paper's words

S = Setting(in_channels=2, out_channels=3, dim=2, hidden_channels=5, n_modes=(4, 4), n_patches=(2, 3))
N = 1536
NAMES = {
    "c": 4, "d": 5, "d_z": 3, "d_FNO": 128, "N": N, "P": 6, "b": 8,
    "log": log2, "root": sqrt,
}  # fmt: skip


def value(text, k_max):
    """The printed formula: a space, or nothing before a bracket, is a product."""
    text = text.replace("²", "**2").replace("√N", "root(N)").replace("√(", "root(")
    text = re.sub(r"log root\(([^()]*)\)", r"log(root(\1))", text)
    tokens = re.findall(r"root|log|[A-Za-z_]+|\d+|\*\*2|[-+/()]", text)
    out = []
    for token in tokens:
        is_factor = token not in ("**2", "+", "-", "/", ")")
        if out and is_factor and (out[-1] not in ("+", "-", "/", "(", "root", "log")):
            out.append("*")
        out.append(token)
    return eval("".join(out), NAMES | {"k_max": k_max})


@pytest.mark.parametrize("name", COMPLEXITY)
def test_the_formulas_in_words_are_those_that_are_computed(name):
    k_max = 4 * 3 if name == "FNO" else 7 * 7
    extra = (N,) if name == "AFNO" else ()
    parameters = getattr(complexity, f"parameters_{name.lower()}")(S, *extra)
    if name == "AFNO":  # the function rounds 4 d^2 / b down
        parameters += 4 * (4 * 25 / 8 - 4 * 25 // 8)
    assert value(COMPLEXITY[name].parameters, k_max) == pytest.approx(parameters)
    cost = getattr(complexity, f"cost_{name.lower()}")(S, N)
    if name == "AFNO":  # printed without N
        cost += 4 * 16 * 25 * (1 - N)
    assert value(COMPLEXITY[name].cost, k_max) == pytest.approx(cost)
