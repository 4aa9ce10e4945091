"""torch.func on every operator: derivatives, batches and ensembles agree with what autograd and a loop give."""

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from operformer import FANO, TNO, Grid, SpectralOperator, ViTNO
from operformer.operators import backend

# torch's own rules of forward derivatives are made by its deprecated scripting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),
    # vmap takes the gradient of a TNO's fused attention one by one.
    pytest.mark.filterwarnings("ignore:There is a performance drop.*:UserWarning"),
]

SMALL = {"hidden_channels": 4, "n_layers": 1}
GRID = Grid.uniform((6, 4), kind="cells")
MAKE = {
    "TNO": lambda: TNO(dim=2, in_channels=1, out_channels=1, n_heads=2, **SMALL),
    "ViTNO": lambda: ViTNO((2, 1), 2, 1, 1, n_heads=2, **SMALL),
    "FANO": lambda: FANO((2, 1), 2, 1, 1, n_heads=2, **SMALL),
    "FANO, cosines": lambda: FANO((2, 1), 2, 1, 1, n_heads=2, basis="cosine", **SMALL),
    "SpectralOperator": lambda: SpectralOperator((2, 2), 1, 1, **SMALL),
}


@pytest.fixture(params=MAKE)
def operator(request):
    torch.manual_seed(0)
    return MAKE[request.param]().double()


@pytest.fixture
def u():
    return torch.rand(3, 1, *GRID.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_derivatives_in_the_input(operator, u):
    direction = torch.cos(7 * u)
    z, slope = jvp(lambda v: operator(v, GRID), (u,), (direction,))
    step = 1e-5
    ahead, behind = (operator(u + sign * step * direction, GRID) for sign in (1, -1))
    torch.testing.assert_close(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(z, operator(u, GRID))
    forward, backward = (jac(lambda v: operator(v, GRID))(u[:1]) for jac in (jacfwd, jacrev))
    torch.testing.assert_close(forward, backward)


def test_second_derivatives_are_symmetric(operator, u):
    with sdpa_kernel(SDPBackend.MATH):  # a TNO needs it: torch's fused kernels have first derivatives alone
        second = hessian(lambda v: operator(v, GRID).square().sum())(u[:1]).reshape(GRID.weights.numel(), -1)
    torch.testing.assert_close(second, second.T)
    assert second.abs().max() > 0


def test_gradients_of_each_sample(operator, u):
    parameters = dict(operator.named_parameters())

    def loss(parameters, v):
        return functional_call(operator, parameters, (v[None], GRID)).square().mean()

    found = vmap(grad(loss), (None, 0))(parameters, u)
    for k, v in enumerate(u):
        expected = torch.autograd.grad(loss(parameters, v), parameters.values())
        for name, one in zip(parameters, expected, strict=True):
            torch.testing.assert_close(found[name][k], one)


def test_an_ensemble_in_one_call(operator, u):
    members = [{k: (1 + 0.1 * n) * p for k, p in operator.named_parameters()} for n in range(2)]
    stacked = {k: torch.stack([member[k] for member in members]) for k in members[0]}
    found = vmap(lambda parameters: functional_call(operator, parameters, (u, GRID)))(stacked)
    torch.testing.assert_close([*found], [functional_call(operator, member, (u, GRID)) for member in members])


def test_curvature_at_query_points(u):
    """A TNO is smooth in x but for its interpolated input; with a constant one the Laplacian is that of differences."""
    operator = MAKE["TNO"]().double()
    constant = torch.ones_like(u[:1])
    at = torch.tensor([[0.31, 0.47], [0.62, 0.23]], dtype=torch.float64)

    def z(points):
        return operator(constant, GRID, query=Grid.scattered(points))

    with sdpa_kernel(SDPBackend.MATH):
        points = at.clone().requires_grad_()
        (slope,) = torch.autograd.grad(z(points).sum(), points, create_graph=True)
        (bend,) = torch.autograd.grad(slope[:, 0].sum(), points)
    step = torch.tensor([1e-3, 0.0], dtype=torch.float64)
    with torch.no_grad():
        expected = (z(at + step) - 2 * z(at) + z(at - step)) / 1e-6
    torch.testing.assert_close(bend[:, 0], expected.flatten(), rtol=1e-4, atol=1e-7)


def test_without_a_tangent_attention_is_fused():
    assert "torch's fused attention, log w as a mask" in backend(MAKE["TNO"](), GRID)
