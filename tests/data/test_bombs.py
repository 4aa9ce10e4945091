"""Files and settings that ask for more memory than there is: refused before it is taken."""

import io
import struct
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

import operformer
from operformer import FANO, TNO, Grid, SpectralOperator
from operformer.errors import DataError, ResourceError, UsageError
from operformer.memory import available, set_limit, spoken
from operformer.problems import Lorenz63

ROOM = np.arange(5 * 7 * 11, dtype=np.float32).reshape(5, 7, 11)
LIMIT = 48 * 2**20


@pytest.fixture
def limited():
    set_limit(str(LIMIT))
    yield
    set_limit(None)


def resident():
    """The bytes that this process has taken until now, and those that it took at most since it was asked to count."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines() if "kB" in line)
    return [1024 * int(lines[name].split()[0]) for name in ("VmRSS", "VmHWM")]


def chunks(path, filters, sizes):
    """An array of 5 x 7 x 11 numbers whose chunk is much larger."""
    with h5py.File(path, "w") as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk(sizes)
        for _ in range(filters):
            plan.set_deflate(9)
        space = h5py.h5s.create_simple((5, 7, 11), (h5py.h5s.UNLIMITED,) * 3)
        dataset = h5py.h5d.create(file.id, b"u", h5py.h5t.IEEE_F32LE, space, plan)
        packer, body = zlib.compressobj(9), io.BytesIO()
        for _ in range(4 * int(np.prod(sizes)) >> 20):
            body.write(packer.compress(bytes(2**20)))
        packed = body.getvalue() + packer.flush()
        for _ in range(filters - 1):
            packed = zlib.compress(packed, 9)
        dataset.write_direct_chunk((0, 0, 0), packed)
        file["z"] = ROOM


def hdf5_chunk_of_a_filter(path):
    chunks(path, 1, (8, 2048, 1024))


def hdf5_chunk_of_two_filters(path):
    chunks(path, 2, (8, 2048, 1024))


def npz_unpacked(path):
    np.savez_compressed(path, u=np.zeros((5, 2**11, 2**11), np.float32), z=ROOM)


def npz_longer_than_its_header(path):
    good = io.BytesIO()
    np.save(good, ROOM)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("u.npy", good.getvalue() + bytes(2**26))
        file.writestr("z.npy", good.getvalue())


def mat_unpacked(path):
    savemat(path, {"u": np.zeros((5, 2**11, 2**11), np.float32), "z": np.float32(ROOM)}, do_compression=True)


BOMBS = (hdf5_chunk_of_a_filter, hdf5_chunk_of_two_filters, npz_unpacked, npz_longer_than_its_header, mat_unpacked)


@pytest.mark.parametrize("make", BOMBS)
def test_a_file_is_refused_before_it_is_unpacked(make, tmp_path, limited, count):
    suffix = {"h": ".h5", "n": ".npz", "m": ".mat"}[make.__name__[0]]
    make(tmp_path / f"a{suffix}")
    Path("/proc/self/clear_refs").write_text("5")
    before = resident()[0]
    with pytest.raises((ResourceError, DataError)) as caught:
        operformer.read(tmp_path / f"a{suffix}", "u", "z", layout="b x y")
    assert resident()[1] - before < LIMIT // 2, caught.value
    count("files that unpack to more than memory allows, refused before", 1)


SIZES = {
    "a wide operator": lambda: TNO(1, 1, 1, hidden_channels=2**15, n_layers=1, n_heads=1),
    "many channels": lambda: TNO(1, 10**9, 1, hidden_channels=8, n_layers=1, n_heads=2),
    "many modes": lambda: FANO((2,), 2**15, 1, 1, hidden_channels=64, n_layers=1, n_heads=2),
    "modes beyond counting": lambda: SpectralOperator((10**9,), 1, 1, hidden_channels=8, n_layers=1),
    "a fine grid": lambda: Grid.uniform((10**5, 10**5)),
    "a grid of a billion points": lambda: Grid.uniform(10**9),
    "samples beyond counting": lambda: Lorenz63().sample(10**9, 2**10),
}


@pytest.mark.parametrize("kind", SIZES)
def test_a_size_is_refused_before_its_memory_is_taken(kind, limited, count):
    Path("/proc/self/clear_refs").write_text("5")
    before = resident()[0]
    with pytest.raises((ResourceError, UsageError)) as caught:
        SIZES[kind]()
    assert "\n" not in str(caught.value)
    assert resident()[1] - before < LIMIT
    count("sizes that ask for more memory than there is, refused before", 1)


def test_limits_are_sizes(call):
    assert call("--memory", "8X", "models")[0] == 2
    assert call("models", "--memory=8G")[0] == 0
    try:
        for text, size in (("500M", 500 * 2**20), ("0.5 GiB".replace(" ", ""), 2**29), ("4096", 4096)):
            set_limit(text)
            assert available() == size
    finally:
        set_limit(None)
    assert available() > 2**20
    assert (spoken(3 * 2**29), spoken(10**400)) == ("1.5 GiB", "more than a million TiB")
    assert struct.calcsize("q") == 8
