"""A batch of functions on different points is each function on its own points."""

import pytest
import torch

from operformer import FANO, TNO, Grid, SpectralOperator, Transformer, UniversalTNO, voronoi_weights
from operformer.domain import pad, unpad
from operformer.errors import UsageError

COUNTS = {1: (5, 13, 2, 7), 2: (11, 5, 23, 3), 3: (7, 5, 13, 11)}
SMALL = {"in_channels": 2, "out_channels": 3, "hidden_channels": 6, "n_layers": 2}


def operators(dim):
    torch.manual_seed(0)
    made = [TNO(dim, **SMALL, n_heads=2), TNO(dim, **SMALL, n_heads=3, initial_channels=1), UniversalTNO(dim, **SMALL)]
    made.append(Transformer(dim, **SMALL, n_heads=2))
    made.append(SpectralOperator((3, 2, 2)[:dim], 2, 3, 6, n_layers=2, basis="cosine", waves=2))
    made.append(SpectralOperator((2, 3, 2)[:dim], 2, 3, 6, n_layers=1, basis="legendre", last=2))
    torch.nn.init.normal_(made[-1].last_layers[0].operator.mixing.weight)
    for operator in made:
        operator.double()
        operator.output_mean.copy_(torch.tensor([0.3, -1.0, 2.0]))
        operator.input_mean.copy_(torch.tensor([0.7, -0.2]))
    return made


def functions(dim):
    draws = torch.Generator().manual_seed(dim)
    points = [torch.rand(n, dim, generator=draws, dtype=torch.float64) for n in COUNTS[dim]]
    for x in points:
        x[1] = 0.0  # where the initial condition lives
    weights = [voronoi_weights(x) for x in points]
    weights[0][2] = 0.0  # a point that is there, and of no weight
    u = [torch.randn(2, n, generator=draws, dtype=torch.float64) for n in COUNTS[dim]]
    return u, Grid.ragged(points, weights)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("which", range(6), ids=["TNO", "initial", "universal", "transformer", "spectral", "residual"])
def test_output_and_gradients_are_those_of_the_samples_one_by_one(which, dim):
    operator, (u, grid) = operators(dim)[which], functions(dim)
    given = pad(u, grid).requires_grad_()
    z = operator(given, grid)
    draws = torch.Generator().manual_seed(7)
    cotangent = torch.randn(z.shape, generator=draws, dtype=torch.float64)
    gradients = torch.autograd.grad((z * cotangent).sum(), [given, *operator.parameters()])
    alone = [one.clone().requires_grad_() for one in u]
    expected = [operator(one.unsqueeze(0), grid.of_sample(k))[0] for k, one in enumerate(alone)]
    total = sum((one * c).sum() for one, c in zip(expected, unpad(cotangent, grid), strict=True))
    wanted = torch.autograd.grad(total, [*alone, *operator.parameters()])
    torch.testing.assert_close(unpad(z, grid), expected, rtol=0, atol=1e-10)
    assert float(z.detach().abs().sum() - sum(one.detach().abs().sum() for one in unpad(z, grid))) == pytest.approx(
        0, abs=1e-10
    )
    found = (*unpad(gradients[0], grid), *gradients[1:])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("which", [0, 4])
def test_the_output_at_other_points(which):
    operator, (u, grid) = operators(2)[which], functions(2)
    query = Grid.uniform((3, 5))
    z = operator(pad(u, grid), grid, query=query)
    for k, one in enumerate(u):
        torch.testing.assert_close(
            z[k : k + 1], operator(one.unsqueeze(0), grid.of_sample(k), query=query), rtol=0, atol=1e-10
        )


def test_what_cannot_be_ragged_is_refused():
    u, grid = functions(2)
    padded = pad(u, grid)
    operator = operators(2)[0]
    with pytest.raises(UsageError, match="points for each of 3 samples: got 4 sets"):
        operator(padded[:3], grid)
    with pytest.raises(UsageError, match="the same for all samples"):
        operator(padded, grid, query=grid)
    fano = FANO((2, 2), 2, **SMALL, n_heads=2).double()
    with pytest.raises(UsageError, match=r"FANO takes samples of one grid: .*use a TNO"):
        fano(padded, grid)
    smoothed = SpectralOperator((2, 2), 2, 3, 6, last="dirichlet").double()
    with pytest.raises(UsageError, match="modes of one grid"):
        smoothed(padded, grid)
