"""The equation as an extra loss: -div(a grad z) = 1 at random points, by second derivatives of a TNO's output there.

Between the points of its grid an operator sees a by linear interpolation; here a is linear, so its slope is exact.
"""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from operformer import TNO, Grid, Samples
from operformer.evaluation.errors import relative_errors
from operformer.evaluation.loss import relative_l2
from operformer.problems.elliptic import solve_darcy
from operformer.training.normalisation import fit_normalisation

STEPS, SOLVED = (40 if "--small" in sys.argv else 200), 8
grid, draws = Grid.uniform((11, 11)), torch.Generator().manual_seed(0)
slopes = 0.5 + 3 * torch.rand(512, 3, generator=draws)  # a(x) = s_0 + s_1 x_1 + s_2 x_2
a = (slopes[:, :1] + slopes[:, 1:] @ grid.points.float().reshape(-1, 2).T).reshape(512, 1, 11, 11)
z, _ = solve_darcy(a[:, 0].double(), torch.ones(grid.shape, dtype=torch.float64), grid)
samples = Samples(a, z[:, None].float(), grid)
solved, test = samples[:SOLVED], samples[448:]  # of all others but the tests only a is used


def residual(operator, chosen):
    """The mean square of -div(a grad z) - 1 = -a (z_11 + z_22) - s . grad z - 1 at 16 random points."""
    x = torch.rand(16, 2, generator=draws).requires_grad_()
    total = 0.0
    with sdpa_kernel(SDPBackend.MATH):  # torch's fused attention has no second derivatives
        for z, s in zip(operator(a[chosen], grid, query=Grid.scattered(x))[:, 0], slopes[chosen], strict=True):
            (gradient,) = torch.autograd.grad(z.sum(), x, create_graph=True)
            laplacian = sum(torch.autograd.grad(gradient[:, k].sum(), x, create_graph=True)[0][:, k] for k in range(2))
            total = total + (-(s[0] + x @ s[1:]) * laplacian - gradient @ s[1:] - 1).square().mean()
        return total / len(chosen)


def trained(weight):
    """A TNO from the solved samples and, with a weight, from the residual of others."""
    torch.manual_seed(0)
    operator = TNO(2, 1, 1, hidden_channels=32, n_layers=2, n_heads=2, waves=4)
    fit_normalisation(operator, solved)
    optimizer = torch.optim.AdamW(operator.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, STEPS)
    for _ in range(STEPS):
        loss = relative_l2(operator(solved.u, grid), solved.z, grid).mean()
        if weight:
            loss = loss + weight * residual(operator, torch.randint(SOLVED, 448, (3,), generator=draws))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(operator.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    mean_square = float(residual(operator, torch.arange(448, 464)).detach())
    print(f"{relative_errors(operator, test).mean():14.1%} {mean_square**0.5:10.2g}")


print(f"{SOLVED} solved samples   error   residual (1 is a forcing of zero)")
print(f"{'without residual':16}", end="", flush=True)
trained(0.0)
print(f"{'with residual':16}", end="", flush=True)
trained(0.03)
