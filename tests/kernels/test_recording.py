"""What can be recorded is, what cannot is carried out as it is; on a GPU beside the action itself."""

import pytest
import torch

from operformer import FANO, Grid
from operformer.domain import Samples
from operformer.evaluation.loss import relative_l2
from operformer.kernels import recording
from operformer.training.update import GraphedPass

pytestmark = pytest.mark.kernels

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are CUDA's")


@pytest.fixture
def modes(monkeypatch):
    """The modes that are set, in their order; the first one is 0."""
    found = [0]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: found[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", found.append)
    return found


def raising(error):
    def action():
        raise error

    return action


def test_an_action_in_which_the_cpu_waits_is_told_from_one_that_fails(modes):
    assert not recording._waits(lambda: torch.zeros(()))
    assert recording._waits(raising(RuntimeError("called a synchronizing CUDA operation")))
    with pytest.raises(RuntimeError, match="another"):
        recording._waits(raising(RuntimeError("another")))
    assert modes == [0, "error", 0, "error", 0, "error", 0]


@needs_gpu
def test_an_action_that_reads_a_value_is_returned_with_the_gradients_as_they_were():
    weight = torch.nn.Parameter(torch.tensor(3.0, device="cuda"))
    weight.grad = torch.tensor(5.0, device="cuda")

    def look():
        (weight * float(weight.detach())).backward()  # which adds 3
        return weight.detach()

    carried_out = recording.CudaGraphs([weight])(look)
    assert carried_out is look
    assert float(weight.grad) == 5
    carried_out()
    assert float(weight.grad) == 8


@needs_gpu
def test_what_a_graph_reads_stays():
    graphs = recording.CudaGraphs()

    def record(value):
        given = torch.full((1 << 20,), value, device="cuda")
        return graphs(lambda: given + 1)

    first, second = record(1.0), record(5.0)
    torch.cuda.empty_cache()
    taken = [torch.zeros(1 << 20, device="cuda") for _ in range(8)]  # where `given` was, if it were gone
    assert len(taken) == 8
    assert float(first().sum()) == 2.0 * (1 << 20)
    assert float(second().sum()) == 6.0 * (1 << 20)


@needs_gpu
@pytest.mark.filterwarnings("ignore")  # what the compiler says of itself
def test_patches_of_nodes_whose_sizes_are_read_train_all_the_same():
    torch.manual_seed(0)
    operator = FANO((2, 2), 3, 1, 1, hidden_channels=16, n_layers=1, n_heads=2).cuda()
    grid = Grid.uniform((13, 13)).to("cuda")
    u, z = torch.randn(2, 3, 1, 13, 13, device="cuda")
    graphed = GraphedPass(operator, relative_l2, warm=1)
    expected = relative_l2(operator(u, grid), z, grid).mean().detach()
    for _ in range(4):
        torch.testing.assert_close(graphed(Samples(u, z, grid), 1.0), expected, rtol=1e-4, atol=1e-5)
