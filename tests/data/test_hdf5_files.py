import h5py
import numpy as np
import pytest
import torch

import operformer
from operformer import Grid
from operformer.data.exchange import read_blocks
from operformer.data.options import Options
from operformer.errors import DataError, ResourceError

PACKED = [
    {},
    {"chunks": (2, 3, 4), "compression": "gzip", "shuffle": True, "fletcher32": True},
    {"chunks": (5, 7, 11), "compression": "lzf"},
]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("options", PACKED)
def test_two_named_arrays_inside_groups(options, libver, numbered, tmp_path):
    u, z = numbered("b x y"), numbered("b x y") + 0.5
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        file.create_dataset("fields/before", data=u, **options)
        file.create_dataset("fields/after", data=z, **options)
        file["coords/x"], file["coords/y"] = np.linspace(0, 2, 7), np.linspace(0, 3, 11)
    samples = operformer.read(tmp_path / "a.h5", "fields/before", "fields/after")
    np.testing.assert_array_equal(samples.u, u[:, None])
    np.testing.assert_array_equal(samples.z, z[:, None])
    assert repr(samples.grid) == repr(Grid.uniform((7, 11), [(0, 2), (0, 3)]))


def test_only_what_is_asked_for_is_read(numbered, tmp_path):
    u = numbered("b x")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("u", data=u, chunks=(1, 7), compression="gzip")
        file["z"] = u
        place = data.id.get_chunk_info(4).byte_offset
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[place : place + 8] = b"\xff" * 8
    (tmp_path / "a.h5").write_bytes(content)
    np.testing.assert_array_equal(
        operformer.read(tmp_path / "a.h5", layout="b x", grid="nodes", count=4).u[:, 0], u[:4]
    )
    with pytest.raises(DataError, match="damaged"):
        operformer.read(tmp_path / "a.h5", grid="nodes")


def test_a_folder_of_files_is_read_in_order(numbered, tmp_path):
    u = numbered("b c x")
    for k, part in enumerate((slice(0, 2), slice(2, 3), slice(3, 5))):
        with h5py.File(tmp_path / f"part{k}.hdf5", "w") as file:
            file["u"], file["z"] = u[part], u[part, 0]
    samples = operformer.read(tmp_path, grid="nodes")
    np.testing.assert_array_equal(samples.u, u)
    np.testing.assert_array_equal(samples.z[:, 0], u[:, 0])
    for first in range(5):
        for count in range(1, 6 - first):
            part = operformer.read(tmp_path, grid="nodes", first=first, count=count)
            np.testing.assert_array_equal(part.u, u[first : first + count])
            blocks = list(read_blocks(tmp_path, 2, Options(grid="nodes"), first, count))
            assert torch.cat([block.u for block in blocks]).equal(part.u)
            assert max(map(len, blocks)) <= 2


def test_what_cannot_fit_into_memory_is_not_tried(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = file["z"] = np.ones((50, 1000), np.float32)
    monkeypatch.setattr("operformer.memory._limit", 100_000)
    with pytest.raises(ResourceError, match="read a part of it with first= and count="):
        operformer.read(tmp_path / "a.h5", grid="nodes")
    assert len(operformer.read(tmp_path / "a.h5", grid="nodes", first=7, count=5)) == 5


def test_a_group_that_holds_itself_is_walked_once(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["0"] = file["1"] = np.ones((5, 7))  # names that PDEBench gives to groups
        file["loop"] = file["/"]
    assert len(operformer.read(tmp_path / "a.h5", "0", "1", grid="nodes")) == 5
