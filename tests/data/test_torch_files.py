from collections import OrderedDict

import pytest
import torch

import operformer
from operformer.data.torch_files import open_torch
from operformer.errors import DataError

NUMBERS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
NUMBERS += [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def saved(path, value, **options):
    torch.save(value, path, **options)
    with open_torch(path) as contents:
        return {name: torch.tensor(a[(slice(None),) * len(a.shape)]) for name, a in contents.arrays.items()}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_type_comes_back(dtype, tmp_path):
    x = (torch.arange(-100, 285).reshape(5, 7, 11) / 3).to(dtype)
    found = saved(tmp_path / "a.pt", {"x": x})["x"]
    assert torch.equal(found, x.float() if dtype == torch.bfloat16 else x)


def test_views_keep_their_strides(tmp_path):
    whole = torch.arange(5 * 7 * 11 * 2.0).reshape(5, 7, 11, 2)
    views = {
        "transposed": whole.movedim(-1, 1),
        "part": whole[1:4, ::2, 3:, 1],
        "expanded": whole[:, :1, :1].expand(5, 3, 11, 2),
        "windows": torch.arange(20.0).unfold(0, 5, 2),
        "scalar": torch.tensor(3.0),
        "parameter": whole[0].clone().requires_grad_().detach(),
        "mask": whole > 7,
        "again": whole,  # shares its storage
        **{f"tensor {k}": torch.full((2,), float(k)) for k in range(300)},  # so many need the long opcodes
    }
    found = saved(tmp_path / "a.pt", views)
    assert found.keys() == views.keys()
    for name, view in views.items():
        assert torch.equal(found[name], view), name


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_every_protocol_of_pickle(kind, protocol, tmp_path):
    value = kind([("x", torch.ones(5, 7)), ("y", torch.zeros(5, 7)), ("note", "text"), ("n", 2**40), ("p", 0.5)])
    found = saved(tmp_path / "a.pt", value, pickle_protocol=protocol)
    assert found.keys() == {"x", "y"}
    assert torch.equal(found["x"], torch.ones(5, 7))


def test_lists_and_tuples_go_by_position(tmp_path):
    x, y = torch.randn(5, 7), torch.randn(5, 7)
    for value in ((x, y), [x, y]):
        torch.save(value, tmp_path / "a.pt")
        samples = operformer.read(tmp_path / "a.pt", "0", "1", grid="nodes")
        assert torch.equal(samples.u[:, 0], x)
        assert torch.equal(samples.z[:, 0], y)


def test_darcy_flow_of_neuraloperator(tmp_path, monkeypatch):
    """darcy_train_16.pt is a dict of x, a mask, and y, both (samples, 16, 16); its reader adds the channel."""
    x, y = torch.randn(5, 16, 16) > 0, torch.randn(5, 16, 16)
    torch.save({"x": x, "y": y}, tmp_path / "darcy_train_16.pt")
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("torch.load was called"))
    samples = operformer.read(tmp_path / "darcy_train_16.pt", grid="left")
    assert torch.equal(samples.u, x[:, None].float())
    assert torch.equal(samples.z, y[:, None])


def test_a_parameter_is_no_plain_tensor(tmp_path):
    torch.save({"x": torch.nn.Parameter(torch.ones(5, 7))}, tmp_path / "a.pt")
    with pytest.raises(DataError, match=r"it asks for 'torch\._utils\._rebuild_parameter'; nothing of it was run"):
        operformer.read(tmp_path / "a.pt")
