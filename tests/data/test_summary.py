import numpy as np
import pytest
import torch

from operformer.data.summary import Channel, summarise
from operformer.domain import Grid, Samples
from operformer.problems import Lorenz63


def test_a_value_computed_by_hand():
    grid = Grid.uniform(3, [(0, 2)])  # trapezoidal weights 1/2, 1, 1/2
    u = torch.tensor([[[0.0, 1.0, 2.0]], [[4.0, 4.0, 4.0]]])
    summary = summarise(Samples(u, -u.double(), grid))
    assert (summary.count, summary.shape, summary.dtype) == (2, (3,), "float32 and float64")
    mean, std = 2.5, (((2.5**2 + 2 * 1.5**2 + 0.5**2) / 4 + 1.5**2) / 2) ** 0.5
    assert summary.u == (Channel(0.0, 4.0, mean, pytest.approx(std, rel=1e-12)),)
    assert summary.z == (Channel(-4.0, 0.0, -mean, pytest.approx(std, rel=1e-12)),)


def test_blocks_make_no_difference():
    samples = Lorenz63().sample(150, 16)
    summary = summarise(samples)
    weights = (samples.grid.weights / samples.grid.weights.sum()).numpy()
    for values, channels in ((samples.u.numpy(), summary.u), (samples.z.numpy(), summary.z)):
        for k, channel in enumerate(channels):
            mean = (values[:, k] * weights).sum(-1).mean()
            std = np.sqrt((((values[:, k] - mean) ** 2) * weights).sum(-1).mean())
            expected = [values[:, k].min(), values[:, k].max(), mean, std]
            found = [channel.minimum, channel.maximum, channel.mean, channel.std]
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_samples_that_nothing_can_be_learnt_from_are_named():
    samples = Lorenz63().sample(140, 16)
    clean = summarise(samples)
    assert not any((clean.not_finite_u, clean.not_finite_z, clean.zero_z, clean.repeated_u))
    samples.u[3, 0, 5], samples.u[129, 0, 0], samples.z[70, 0, 1] = torch.nan, torch.inf, -torch.inf
    samples.z[100] = 0
    samples.u[139] = samples.u[2]
    summary = summarise(samples)
    assert (summary.not_finite_u, summary.not_finite_z) == ((3, 129), (70,))
    assert (summary.zero_z, summary.repeated_u) == ((100,), ((2, 139),))
    assert np.isfinite([summary.u[0].maximum, summary.u[0].mean, summary.u[0].std, summary.z[0].minimum]).all()
    lines = summary.lines()
    assert lines[0] == "140 pairs of float64 on Grid(nodes, 17 points in [0, 2])"
    assert "u has NaN or infinity in samples 3, 129; no training takes it (import --skip)" in lines
    assert "z has NaN or infinity in sample 70; no training takes it (import --skip)" in lines
    assert "z is zero everywhere in sample 100; no training takes it (import --skip)" in lines
    assert "u is the same in samples 2 = 139" in lines


def test_long_lists_are_cut_and_channels_without_a_finite_value_say_so():
    samples = Samples(torch.full((50, 2, 7), torch.nan), torch.ones(50, 1, 7), Grid.uniform(7))
    summary = summarise(samples)
    assert summary.not_finite_u == tuple(range(50))
    assert np.isnan(summary.u[0].mean)
    assert any("18, 19 and 30 more" in line for line in summary.lines())
