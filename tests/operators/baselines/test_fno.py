"""FNO against neuraloperator itself and Fourier sums written out; what is said without neuraloperator."""

import sys
import warnings
from itertools import product

import pytest
import torch
from written_out import as_literal_fno

from operformer import Grid, load
from operformer.errors import ResourceError, UsageError
from operformer.operators.baselines import FNO
from operformer.operators.baselines.fno import make_half_spectrum, spectral_convolution
from operformer.problems import ControlledODE
from operformer.training.loop import Training, train


@pytest.fixture(scope="module")
def neuralop():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("neuralop")


def pair(neuralop, dim, n_modes, dtype=torch.float32):
    """neuraloperator's own FNO, with its own grid, and ours with the same weights."""
    torch.manual_seed(0)
    theirs = neuralop.models.FNO(n_modes=n_modes, in_channels=2, out_channels=3, hidden_channels=5, n_layers=2)
    ours = FNO(dim, 2, 3, hidden_channels=5, n_layers=2, n_modes=n_modes)
    weights = {f"network.{name}": t for name, t in theirs.state_dict().items() if name != "_metadata"}
    for k in range(2):
        complex_weight = weights.pop(f"network.fno_blocks.convs.{k}.weight.tensor")
        weights[f"spectral.{k}"] = torch.view_as_real(complex_weight)
    missing, unexpected = ours.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.startswith(("input_", "output_", "domain_")) for name in missing)
    if dtype == torch.float64:
        ours = ours.double()
        complex_double = {name: t.to(torch.complex128) for name, t in theirs.named_parameters() if t.is_complex()}
        with warnings.catch_warnings():  # torch: casting complex values to real
            warnings.simplefilter("ignore")
            theirs = theirs.double()
        for name, values in complex_double.items():
            theirs.get_submodule(name.rpartition(".")[0]).tensor = torch.nn.Parameter(values)
    return theirs, ours


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("n_modes", "shape"),
    [
        ((4,), (11,)),
        ((12,), (6,)),
        ((6, 4), (8, 10)),
        ((6, 4), (12, 7)),
        ((12, 12), (4, 6)),
        ((12, 12), (6, 3)),
        ((7, 5), (4, 10)),
        ((5, 7), (8, 5)),
        ((2, 4, 2), (4, 6, 5)),
        ((6, 4, 8), (4, 6, 5)),
    ],
    ids=str,
)
def test_it_is_neuraloperators_fno(neuralop, n_modes, shape, dtype):
    """Their grid embedding has the points of a periodic grid of the unit cube; some grids have fewer than the modes.

    Their own rounding, to complex64 in float64 as well, sets the tolerance.
    """
    theirs, ours = pair(neuralop, len(shape), n_modes, dtype)
    u = torch.randn(2, 2, *shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    found = ours(u, Grid.uniform(shape, kind="periodic"))
    assert found.dtype == dtype
    torch.testing.assert_close(found, theirs(u), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n_modes", "shape"), [((4, 4), (6, 8)), ((8, 6), (4, 5))], ids=str)
def test_gradients_are_neuraloperators(neuralop, n_modes, shape):
    theirs, ours = pair(neuralop, 2, n_modes)
    u = torch.randn(1, 2, *shape, generator=torch.Generator().manual_seed(1))
    ours(u, Grid.uniform(shape, kind="periodic")).square().sum().backward()
    theirs(u).square().sum().backward()
    expected = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    found = {name.removeprefix("network."): parameter.grad for name, parameter in ours.named_parameters()}
    for k in range(len(ours.spectral)):
        gradient = expected.pop(f"fno_blocks.convs.{k}.weight.tensor")
        expected[f"spectral.{k}"] = torch.view_as_real(gradient)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def convolution_by_loops(v, weight, wave_numbers, n_modes):
    """Re sum_k c_k R_k v^_k e^{2 pi i k . x}, mode by mode: (c, *shape) -> (o, *shape)."""
    shape = v.shape[1:]
    total = torch.zeros(weight.shape[1], *shape, dtype=torch.float64)
    for k in product(*wave_numbers):
        phases = (kj * torch.arange(n, dtype=torch.float64) / n for kj, n in zip(k, shape, strict=True))
        angle = 2 * torch.pi * sum(torch.meshgrid(*phases, indexing="ij"))
        wave = torch.polar(torch.ones_like(angle), angle)
        coefficient = (v * wave.conj()).flatten(1).mean(1)
        place = (*(kj + m // 2 for kj, m in zip(k[:-1], n_modes[:-1], strict=True)), k[-1])
        new = coefficient @ torch.view_as_complex(weight)[(slice(None), slice(None), *place)]
        times = 1 if 2 * k[-1] % shape[-1] == 0 else 2
        total += times * (new.reshape(-1, *[1] * len(shape)) * wave).real
    return total


@pytest.mark.parametrize(
    ("shape", "n_modes", "wave_numbers"),
    [
        ((11,), (4,), [range(3)]),
        ((4,), (8,), [range(3)]),
        ((1, 2), (4, 4), [range(1), range(2)]),
        ((8, 9), (6, 4), [range(-3, 3), range(3)]),
        ((9, 8), (6, 4), [range(-3, 3), range(3)]),
        ((5, 4), (6, 8), [range(-2, 3), range(3)]),
        ((4, 5), (6, 8), [range(-2, 2), range(3)]),
        ((7, 5, 3), (4, 6, 4), [range(-2, 2), range(-2, 3), range(2)]),
    ],
    ids=str,
)
def test_the_convolution_is_the_sum_over_wave_numbers(shape, n_modes, wave_numbers):
    """Odd numbers of points along any axis included; float64 is float64 throughout."""
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(2, 3, *shape, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 5, *n_modes[:-1], n_modes[-1] // 2 + 1, 2, generator=generator, dtype=torch.float64)
    spectrum = make_half_spectrum(shape, n_modes, v)
    found = spectral_convolution(v.movedim(1, -1), weight, spectrum, n_modes).movedim(-1, 1)
    expected = torch.stack([convolution_by_loops(one, weight, wave_numbers, n_modes) for one in v])
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("sizes", [(24, 48), (15, 30), (25, 75)], ids=str)
def test_band_limited_functions_look_the_same_on_two_grids(neuralop, sizes):
    """One linear layer on functions whose modes both grids hold."""
    torch.manual_seed(0)
    operator = FNO(2, 1, 1, hidden_channels=6, n_layers=1, n_modes=6).double()
    with torch.no_grad():
        operator.network.lifting.fcs[0].weight[:, 1:] = 0  # coordinates are not periodic
        operator.network.lifting.fcs[0].weight *= 0.01  # nor is GELU(band-limited) band-limited
    outputs = []
    for n in sizes:
        grid = Grid.uniform((n, n), kind="periodic")
        x, y = (2 * torch.pi * grid.points).unbind(-1)
        outputs.append(operator((torch.sin(x) * torch.cos(2 * y))[None, None], grid))
    step = sizes[1] // sizes[0]
    torch.testing.assert_close(outputs[0], outputs[1][..., ::step, ::step], rtol=1e-9, atol=1e-10)


def test_neuraloperators_own_computation_is_kept(neuralop):
    torch.manual_seed(0)
    operator = FNO(2, 1, 2, hidden_channels=6, n_layers=2, n_modes=(6, 8))
    operator.input_mean.fill_(0.5)
    literal = as_literal_fno(operator)
    assert literal.state_dict().keys() == operator.state_dict().keys()
    u, grid = torch.randn(1, 1, 10, 7), Grid.uniform((10, 7), kind="cells")
    torch.testing.assert_close(literal(u, grid), operator(u, grid), rtol=1e-5, atol=1e-6)
    with pytest.raises(UsageError, match="odd number of points"):
        literal(torch.zeros(1, 1, 7, 8), Grid.uniform((7, 8)))


def test_without_neuraloperator_a_saved_one_is_no_damaged_file(neuralop, tmp_path, monkeypatch):
    FNO(1, 1, 1, hidden_channels=4, n_layers=1, n_modes=4).save_pretrained(tmp_path)
    monkeypatch.setitem(sys.modules, "neuralop.models", None)
    with pytest.raises(ResourceError, match="pip install"):
        load(tmp_path)


def test_a_training_that_stopped_goes_on_to_the_same_numbers(neuralop, tmp_path):
    """neuraloperator's own trainer cannot resume an FNO."""
    samples = ControlledODE().sample(24, 8, seed=1).to(dtype=torch.float32)
    results = []
    for folder, stops in (("whole", (4,)), ("parts", (2, 4))):
        for epochs in stops:
            torch.manual_seed(0)
            operator = FNO(1, 1, 1, hidden_channels=6, n_layers=1, n_modes=4)
            settings = Training(epochs=epochs, batch_size=4, learning_rate=5e-3, device="cpu")
            trained = train(operator, samples[:20], samples[20:], settings, tmp_path / folder)
        results.append(trained.state_dict())
    torch.testing.assert_close(*map(dict, results), rtol=0, atol=0)


def test_what_it_refuses(neuralop):
    operator = FNO(2, 1, 1, hidden_channels=4, n_layers=1, n_modes=4)
    for grid in (Grid.rectilinear([0.0, 0.3, 1.0], [0.0, 1.0]), Grid.scattered(torch.rand(5, 2))):
        with pytest.raises(UsageError, match="FNO takes uniform grids only"):
            operator(torch.zeros(1, 1, *grid.shape), grid)
    with pytest.raises(UsageError, match="leave query= out"):
        operator(torch.zeros(1, 1, 8, 8), Grid.uniform((8, 8)), query=Grid.uniform((4, 4)))
    with pytest.raises(UsageError, match="n_modes must be at least 2"):
        FNO(2, 1, 1, n_modes=(4, 4, 4))


def test_warning_filters_stay_as_they_were(neuralop):
    before = list(warnings.filters)
    FNO(1, 1, 1, hidden_channels=4, n_layers=1, n_modes=4)
    assert warnings.filters == before
