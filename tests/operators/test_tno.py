"""TNO, its universal variant and the plain transformer against compositions by hand (Sections 4.2 and 5)."""

import numpy as np
import pytest
import torch
from draws import noise
from test_encoder import as_arrays, average, encoder_layer, gelu, linear, randomise

from operformer import TNO, Grid, Transformer, UniversalTNO
from operformer.errors import UsageError

AXIS = (0.0, 0.02, 0.1, 0.15, 0.4, 0.45, 0.5, 0.9, 0.93, 1.0, 1.7)


def tno_by_hand(operator, u, points, weights):
    """T_out o E_L o T_in on points (N, d): concatenation with x, lift, layers, head; all from the state dict."""
    state, heads = as_arrays(operator), operator.settings["n_heads"]
    eps = operator.network.layers[0].norm_1.eps
    v = linear(np.concatenate([u, points], 1), state, "network.lift.linear")
    for layer in range(operator.settings["n_layers"]):
        v = encoder_layer(v, state, f"network.layers.{layer}.", weights, heads, eps)
    return linear(v, state, "network.head.linear")


def assert_near(z, expected, tolerance=1e-10):
    np.testing.assert_allclose(z.detach().numpy(), expected, rtol=tolerance, atol=tolerance, equal_nan=False)


# The composition


@pytest.mark.parametrize(
    "grid", [Grid.rectilinear(AXIS), Grid.rectilinear((0.0, 0.1, 1.0), AXIS[:5])], ids=["1d", "2d"]
)
def test_tno_is_the_composition_written_by_hand(grid):
    operator = TNO(grid.dim, 2, 3, hidden_channels=10, n_layers=2, n_heads=5)
    operator = randomise(operator.double(), seed=1)
    u = noise(2, 2, *grid.shape)
    z = operator(u, grid)
    points, weights = grid.points.reshape(-1, grid.dim).numpy(), grid.weights.flatten().numpy()
    for b in range(2):
        expected = tno_by_hand(operator, u[b].flatten(1).T.numpy(), points, weights)
        assert_near(z[b].flatten(1).T, expected)


def test_physical_units_in_and_out():
    """z = mean + scale G((u - mean) / scale) on (x - lower) / extent, whatever the units of D."""
    operator = randomise(TNO(1, 2, 2, hidden_channels=6, n_layers=1, n_heads=3).double(), seed=3)
    buffers = {
        "input_mean": [3.0, -1.0], "input_scale": [2.0, 0.5], "output_mean": [10.0, 20.0], "output_scale": [0.1, 5.0],
        "domain_lower": [-4.0], "domain_extent": [8.0],
    }  # fmt: skip
    for name, values in buffers.items():
        getattr(operator, name).copy_(torch.tensor(values))
    grid, u = Grid.rectilinear([-4.0, -3.0, 0.0, 0.5, 4.0]), noise(1, 2, 5)
    inside = (u[0].T.numpy() - [3.0, -1.0]) / [2.0, 0.5]
    points = (grid.points.numpy() + 4) / 8
    expected = [10.0, 20.0] + np.array([0.1, 5.0]) * tno_by_hand(operator, inside, points, grid.weights.numpy())
    assert_near(operator(u, grid)[0].T, expected)


# Functions, not vectors


def test_a_permutation_of_scattered_points_permutes_the_output():
    operator = randomise(TNO(2, 1, 2, hidden_channels=8, n_layers=2, n_heads=2).double(), seed=4)
    points = torch.rand(17, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights, u = points[:, 0] + 0.1, noise(2, 1, 17)
    order = torch.randperm(17, generator=torch.Generator().manual_seed(1))
    z = operator(u, Grid.scattered(points, weights))
    shuffled = operator(u[..., order], Grid.scattered(points[order], weights[order]))
    torch.testing.assert_close(shuffled, z[..., order], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("grid", [Grid.rectilinear(AXIS), Grid.uniform((5, 7))], ids=["1d", "2d"])
@pytest.mark.parametrize("kind", [TNO, UniversalTNO, Transformer])
def test_a_query_on_the_grid_itself_changes_nothing(kind, grid):
    torch.manual_seed(5)
    operator = kind(grid.dim, 2, 1, hidden_channels=8, n_layers=2).double()
    u = noise(3, 2, *grid.shape)
    torch.testing.assert_close(operator(u, grid, query=grid), operator(u, grid), rtol=1e-12, atol=1e-12)
    same = Grid.scattered(grid.points.reshape(-1, grid.dim), bounds=grid.bounds)
    z = operator(u, grid, query=same).unflatten(-1, grid.shape)
    torch.testing.assert_close(z, operator(u, grid), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", [TNO, UniversalTNO])
def test_query_points_are_points_of_weight_zero(kind):
    torch.manual_seed(6)
    operator = kind(1, 1, 2, hidden_channels=8, n_layers=3).double()
    grid, u = Grid.rectilinear(AXIS), noise(2, 1, 11)
    x = torch.tensor([0.01, 0.07, 0.3, 0.47, 1.3, 1.69, 1.7], dtype=torch.float64)
    z = operator(u, grid, query=Grid.scattered(x[:, None], bounds=grid.bounds))
    there = torch.from_numpy(np.stack([np.interp(x, AXIS, u[b, 0]) for b in range(2)]))[:, None]
    union = Grid.scattered(
        torch.cat([grid.points, x[:, None]]), torch.cat([grid.weights, torch.zeros(7)]), bounds=grid.bounds
    )
    together = operator(torch.cat([u, there], -1), union)
    torch.testing.assert_close(z, together[..., 11:], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(operator(u, grid), together[..., :11], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("spacing", ["uniform", "graded"])
def test_the_output_converges_with_order_two(spacing):
    operator = randomise(TNO(1, 1, 1, hidden_channels=16, n_layers=2, n_heads=2).double(), seed=7)

    def on_level(n):
        s = torch.linspace(0, 1, n + 1, dtype=torch.float64)
        x = s if spacing == "uniform" else s + 0.4 * s * (s - 1)
        with torch.no_grad():
            return operator(torch.sin(3 * x).exp()[None, None], Grid.rectilinear(x))[0, 0, :: n // 32]

    intervals, reference = (32, 64, 128, 256), on_level(2048)
    errors = [float((on_level(n) - reference).abs().max()) for n in intervals]
    order = -np.polyfit(np.log(intervals), np.log(errors), 1)[0]
    print(f"TNO, {spacing}: order {order:.3f}, errors {errors}")
    assert 1.9 < order < 2.1


def test_the_plain_transformer_is_the_tno_where_weights_are_equal_and_only_there():
    tno = randomise(TNO(1, 1, 1, hidden_channels=8, n_layers=2, n_heads=2).double(), seed=8)
    plain = Transformer(1, 1, 1, hidden_channels=8, n_layers=2, n_heads=2).double()
    plain.load_state_dict(tno.state_dict())
    u = noise(2, 1, 11)
    for kind in ("cells", "periodic"):
        grid = Grid.uniform(11, kind=kind)
        torch.testing.assert_close(plain(u, grid), tno(u, grid), rtol=1e-12, atol=1e-12)
    grid = Grid.rectilinear(AXIS)
    assert_near(plain(u, grid)[0].T, tno_by_hand(plain, u[0].T.numpy(), grid.points.numpy(), np.ones(11)))
    assert float((plain(u, grid) - tno(u, grid)).detach().abs().max()) > 1e-2


# An initial condition (Section 6.1)


@pytest.mark.parametrize("lower", [0.0, 2.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_initial_condition_is_read_at_the_start_only(lower, dtype):
    operator = TNO(1, 3, 1, hidden_channels=6, n_layers=1, n_heads=2, initial_channels=2)
    operator = randomise(operator.to(dtype), seed=9)
    operator.domain_lower.fill_(lower)
    t = np.array([1.0, 0.25, 0.0, 0.5, 2.0])  # the start need not come first
    grid, u = Grid.rectilinear(torch.from_numpy(t + lower)), noise(1, 3, 5).to(dtype)
    state, values = as_arrays(operator), u[0].double().T.numpy()
    v = linear(np.stack([values[:, 0], t], 1), state, "network.lift.linear")
    v[2] = linear(np.array([[*values[2], 0.0]]), state, "network.lift.initial")[0]
    v = encoder_layer(v, state, "network.layers.0.", grid.weights.numpy(), 2, operator.network.layers[0].norm_1.eps)
    assert_near(
        operator(u, grid)[0].double().T,
        linear(v, state, "network.head.linear"),
        1e-10 if dtype == torch.float64 else 1e-5,
    )


def test_an_initial_condition_needs_a_point_at_the_start():
    operator = TNO(1, 3, 1, hidden_channels=6, n_layers=1, n_heads=2, initial_channels=2)
    with pytest.raises(UsageError, match="needs a point at the start of D") as caught:
        operator(torch.ones(1, 3, 5), Grid.uniform(5, kind="cells"))
    assert "\n" not in str(caught.value)


# Section 5


def two_layer_map(v, x, state, name):
    return linear(gelu(linear(np.concatenate([v, x], 1), state, name + "0")), state, name + "2")


def test_universal_tno_is_the_composition_of_section_5():
    operator = randomise(UniversalTNO(1, 2, 3, hidden_channels=5, n_layers=2).double(), seed=10)
    grid, u, state = Grid.rectilinear(AXIS), noise(1, 2, 11), as_arrays(operator)
    x, w = grid.points.numpy(), grid.weights.numpy()
    v = two_layer_map(u[0].T.numpy(), x, state, "network.lift.network.")
    for name in ("network.layers.0.", "network.layers.1."):
        query, key, value = (linear(v, state, f"{name}attention.{part}") for part in ("query", "key", "value"))
        v = linear(v, state, name + "skip_1") + average(query, key, value, w, 1.0)
        inner = gelu(linear(v, state, name + "feed_forward.0"))
        v = linear(v, state, name + "skip_2") + linear(inner, state, name + "feed_forward.2")
    assert_near(operator(u, grid)[0].T, two_layer_map(v, x, state, "network.head.network."))


def test_universal_tno_contains_the_mean_as_in_theorem_ua1():
    """Q = K = 0, V = I, W_2 = 0, W_3 = W_4 = I, b_2 = 0: v -> f(W_1 v + b_1 + (1 / |D|) int v)."""
    operator = randomise(UniversalTNO(2, 1, 1, hidden_channels=5).double(), seed=11)
    layer, identity = operator.network.layers[0], torch.eye(5, dtype=torch.float64)
    with torch.no_grad():
        for zero in (layer.attention.query, layer.attention.key, layer.skip_2):
            zero.weight.zero_()
        for one in (layer.attention.value, layer.feed_forward[0], layer.feed_forward[2]):
            one.weight.copy_(identity)
        layer.feed_forward[2].bias.zero_()
    grid, u, state = Grid.rectilinear(AXIS[:5], (-1.0, 0.5, 3.0)), noise(1, 1, 5, 3), as_arrays(operator)
    x, w = grid.points.reshape(-1, 2).numpy(), grid.weights.flatten().numpy()
    v = two_layer_map(u.flatten(1).T.numpy(), x, state, "network.lift.network.")
    mean = sum(w[i] * v[i] for i in range(15)) / (0.4 * 4.0)  # |D|
    b_1 = state["network.layers.0.feed_forward.0.bias"]
    v = gelu(linear(v, state, "network.layers.0.skip_1") + b_1 + mean)
    assert_near(operator(u, grid).flatten(1).T, two_layer_map(v, x, state, "network.head.network."))


# The rest


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from the compiler's own imports
def test_a_compiled_tno_is_the_eager_one():
    torch.manual_seed(12)
    operator = TNO(1, 1, 1, hidden_channels=8, n_layers=1, n_heads=2).eval()
    grid, u = Grid.rectilinear(AXIS), noise(2, 1, 11, dtype=torch.float32)
    compiled = torch.compile(operator, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(u, grid), operator(u, grid), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("initial_channels", [0, 2])
def test_one_compiled_tno_serves_every_resolution(initial_channels):
    torch.manual_seed(13)
    operator = TNO(1, 3, 1, hidden_channels=8, n_layers=1, n_heads=2, initial_channels=initial_channels).eval()
    compiled = torch.compile(operator, fullgraph=True, backend="eager")  # tracing alone: what the library can break
    for n in (5, 7, 11):
        grid, u = Grid.rectilinear(AXIS[:n]), noise(2, 3, n, dtype=torch.float32)
        with torch.no_grad():
            torch.testing.assert_close(compiled(u, grid), operator(u, grid), rtol=1e-5, atol=1e-5)


SMALL = {"dim": 2, "in_channels": 3, "out_channels": 1, "hidden_channels": 8, "n_layers": 1, "n_heads": 2}
VALUES = torch.ones(2, 3, 5, 7)


@pytest.mark.parametrize(
    ("u", "grid", "query", "message"),
    [
        (torch.ones(2, 4, 5, 7), None, None, r"u must be \(batch, 3, .*channels first: got \(2, 4, 5, 7\)"),
        (torch.ones(3, 5, 7), None, None, r"u must be \(batch, 3, .*: got \(3, 5, 7\)"),
        (torch.ones(2, 3, 35), None, None, r"u must be \(batch, 3, .*: got \(2, 3, 35\)"),
        (VALUES.double(), None, None, "u must be .*float32.* like the operator: got .*float64"),
        (VALUES.int(), None, None, "u must be .*float32.* like the operator: got .*int32"),
        (VALUES, Grid.uniform((5, 7, 3)), None, "must have dimension 2"),
        (torch.ones(2, 3, 5), Grid.uniform(5), None, "must have dimension 2"),
        (VALUES, Grid.uniform((7, 5)), None, r"u must be \(batch, 3, 7, 5\) on this grid: got \(2, 3, 5, 7\)"),
        (VALUES, Grid.scattered(torch.rand(35, 2)), None, r"u must be \(batch, 3, 35\)"),
        (VALUES, None, Grid.uniform(5), "query must be a Grid of dimension 2: got Grid"),
        (VALUES, None, Grid.uniform((3, 3), bounds=[(0, 2), (0, 1)]), "reaches outside the domain"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(u, grid, query, message):
    with pytest.raises(UsageError, match=message) as caught:
        TNO(**SMALL)(u, grid, query)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_channels": 128, "n_heads": 6}, "n_heads must divide hidden_channels: got 6 and 128; try 4 or 8"),
        ({"hidden_channels": 0}, "hidden_channels must be a whole number of at least 1: got 0"),
        ({"hidden_channels": 8.0}, "hidden_channels must be a whole number: got 8.0"),
        ({"n_layers": -1}, "n_layers must be a whole number"),
        ({"n_heads": 0}, "n_heads"),
        ({"n_heads": 2.0}, "n_heads"),
        ({"dim": 2.0}, "dim must be a whole number: got 2.0"),
        ({"in_channels": 0}, "in_channels must be a whole number"),
        ({"out_channels": "1"}, "out_channels must be a whole number"),
        ({"dim": 4}, "dim must be 1, 2 or 3: got 4"),
        ({"dim": 0}, "dim must be 1, 2 or 3: got 0"),
        ({"initial_channels": 3}, "initial_channels must be fewer than in_channels: got 3 and 3"),
        ({"initial_channels": -1}, "initial_channels"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(change, message):
    with pytest.raises(UsageError, match=message) as caught:
        TNO(**(SMALL | change))
    assert "\n" not in str(caught.value)


def test_without_a_grid_the_domain_of_the_training_is_meant():
    operator = randomise(TNO(1, 1, 1, hidden_channels=8, n_layers=2, n_heads=2).double(), seed=4)
    operator.domain_lower.fill_(-1.0)
    operator.domain_extent.fill_(3.0)
    u = noise(2, 1, 11)
    there = operator(u, Grid.uniform(11, bounds=[(-1.0, 2.0)]))
    torch.testing.assert_close(operator(u), there, rtol=0, atol=0)
    assert float((operator(u, Grid.uniform(11)) - there).detach().abs().max()) > 1e-3


def test_points_are_no_grid():
    with pytest.raises(UsageError, match=r"grid must be a Grid: got Tensor; try Grid.scattered\(points\)"):
        TNO(**SMALL)(torch.ones(2, 3, 5), torch.rand(5, 2))
