"""All baselines: written to a folder and read back, trained, in physical units, compiled."""

import warnings
from copy import deepcopy

import pytest
import torch
from torch._dynamo.backends.debugging import aot_eager

from operformer import Grid, load
from operformer.operators.baselines import AFNO, FNO, GalerkinTransformer
from operformer.operators.codomain import CodomainNO
from operformer.problems import ControlledODE
from operformer.runs.experiment import parse
from operformer.training.loop import Training, train

MAKE = {
    "AFNO": lambda: AFNO((9,), 1, 1, hidden_channels=8, n_layers=1, n_blocks=2, threshold=0.02),
    "GalerkinTransformer": lambda: GalerkinTransformer(1, 1, 1, hidden_channels=8, n_layers=2, n_heads=2),
    "CodomainNO": lambda: CodomainNO(1, 3, 1, 1, hidden_channels=8, n_layers=1, token_channels=4),
    "FNO": lambda: FNO(1, 1, 1, hidden_channels=6, n_layers=2, n_modes=4),
}
IS_REAL = ("AFNO", "FNO")  # they have real pairs in place of complex numbers


@pytest.fixture(params=MAKE)
def make(request):
    if request.param == "FNO":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytest.importorskip("neuralop")
    torch.manual_seed(0)
    return MAKE[request.param]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_baseline_comes_back_as_it_was(make, dtype, tmp_path):
    operator = make().to(dtype)
    operator.input_mean.fill_(0.5)
    operator.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded) is type(operator)
    assert loaded.settings == operator.settings
    u = torch.randn(2, 1, 9, generator=torch.Generator().manual_seed(1), dtype=dtype)
    for other in (loaded, deepcopy(operator)):
        torch.testing.assert_close(other(u), operator(u), rtol=0, atol=0)
    assert not any(t.is_complex() for t in operator.state_dict().values())


def test_physical_units_in_and_out(make):
    operator, grid = make().double(), Grid.uniform(9)
    u = torch.randn(1, 1, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    z = operator(u, grid)
    for buffer, value in {"input_mean": 3.0, "input_scale": 2.0, "output_mean": -1.0, "output_scale": 5.0}.items():
        getattr(operator, buffer).fill_(value)
    operator.domain_lower.fill_(-1.0)
    operator.domain_extent.fill_(4.0)
    found = operator(2 * u + 3, Grid.uniform(9, [(-1.0, 3.0)]))
    torch.testing.assert_close(found, 5 * z - 1, rtol=1e-12, atol=1e-12)


def test_a_baseline_can_be_trained(make, tmp_path):
    samples = ControlledODE().sample(24, 8, seed=1).to(dtype=torch.float32)
    settings = Training(epochs=6, batch_size=4, learning_rate=5e-3, device="cpu")
    trained = train(make(), samples[:20], samples[20:], settings, tmp_path)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    losses = [float(line.split('"loss": ')[1].split(",")[0]) for line in lines]
    assert losses[-1] < 0.8 * losses[0]
    assert isinstance(trained, type(make()))


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "AFNO", "shape": [9], "hidden_channels": 8},
        {"name": "GalerkinTransformer", "hidden_channels": 8},
        {"name": "CodomainNO", "n_modes": 3, "hidden_channels": 8, "token_channels": 4},
    ],
    ids=lambda settings: settings["name"],
)
def test_experiments_name_them(settings):
    experiment = parse({"problem": {"name": "ControlledODE"}, "operator": settings, "data": {"resolution": 8}})
    assert type(experiment.make_operator()).__name__ == settings["name"]


def test_one_compiled_graph(make):
    """The numbers and gradients of the operator itself, by real tensors alone where weights are real pairs."""
    operator, grid, dtypes = make().double(), Grid.uniform(9, kind="cells"), set()
    u = torch.randn(2, 1, 9, dtype=torch.float64)

    def keep(graph, inputs):
        values = [node.meta.get("example_value") for node in graph.graph.nodes]
        dtypes.update(value.dtype for value in values if isinstance(value, torch.Tensor))
        return aot_eager(graph, inputs)

    torch.compiler.reset()
    outputs = [operator(u, grid), torch.compile(operator, backend=keep, fullgraph=True, dynamic=False)(u, grid)]
    plain, compiled = (torch.autograd.grad(z.square().sum(), list(operator.parameters())) for z in outputs)
    torch.testing.assert_close((outputs[1], *compiled), (outputs[0], *plain), rtol=1e-10, atol=1e-10)
    assert dtypes
    assert type(operator).__name__ not in IS_REAL or not any(dtype.is_complex for dtype in dtypes)
