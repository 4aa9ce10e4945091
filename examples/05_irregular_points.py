"""Every function is known at points of its own: other places, other numbers of them."""

import torch

from operformer import TNO, Grid, Samples, Training, pad, predict, train, voronoi_weights
from operformer.domain import l2_norm
from operformer.evaluation.errors import relative_errors

draws = torch.Generator().manual_seed(0)
k = torch.cartesian_prod(torch.arange(4), torch.arange(4))  # wave numbers
decay = 1 / (1 + 0.1 * torch.pi**2 * k.square().sum(-1))


def functions(coefficients, points):
    """u = sum_k a_k cos(pi k_1 x) cos(pi k_2 y), and z with z - 0.1 z'' = u and no flux through the faces."""
    waves = torch.cos(torch.pi * points[:, None] * k).prod(-1)
    return (waves @ coefficients)[None], (waves @ (decay * coefficients))[None]


a = torch.randn(240, len(k), generator=draws) / (1 + k.square().sum(-1))
sizes = torch.randint(40, 90, (240,), generator=draws).tolist()
points = [torch.rand(n, 2, generator=draws) for n in sizes]
grid = Grid.ragged(points, [voronoi_weights(x) for x in points])
u, z = (pad(values, grid) for values in zip(*map(functions, a, points), strict=True))
samples = Samples(u, z, grid)

operator = TNO(dim=2, in_channels=1, out_channels=1, hidden_channels=32, n_layers=2, n_heads=2)
settings = Training(epochs=9, batch_size=10, learning_rate=3e-3, schedule="one-cycle")
operator = train(operator, samples[:200], samples[200:220], settings, "runs/points")
print(f"error on 20 test functions, each on points of its own: {relative_errors(operator, samples[220:]).mean():.1%}")

at = predict(operator, samples[220:].u, samples[220:].grid, resolution=33)  # the output on a grid that none of them has
truth = torch.stack([functions(one, at.grid.points.reshape(-1, 2).float())[1] for one in a[220:]]).reshape_as(at.z)
print(f"error on a grid of 33 x 33 points: {(l2_norm(at.z - truth, at.grid) / l2_norm(truth, at.grid)).mean():.1%}")
