"""The readers of files from outside, each as a function of bytes: a file is read, or refused in one line.

`TARGETS` is what `.ci/fuzz_readers.py` fuzzes and what tests/faults/test_readers.py replays. Where a format carries
checksums, the target makes them, so that what lies behind them is reached.
"""

import hashlib
import io
import json
import shutil
import struct
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import h5py
import numpy as np
import torch
from safetensors.torch import save

import operformer
from operformer import Grid, Samples
from operformer.data.array_files import open_mat, open_npy
from operformer.data.contents import whole
from operformer.data.manifest import Manifest, encode
from operformer.domain import Samples as Pairs
from operformer.errors import OperformerError
from operformer.evaluation.conformal import calibrate
from operformer.evaluation.errors import evaluate
from operformer.evaluation.rollout import study_rollout
from operformer.operators.pretrained import SHIPPED
from operformer.runs.experiment import NAMED, find_experiment
from operformer.runs.gallery import Gallery, read_gallery, show, write_gallery
from operformer.runs.records import (
    read_calibration,
    read_evaluations,
    read_rollout,
    write_calibration,
    write_evaluations,
    write_rollout,
)
from operformer.training.status import read_metrics, read_status

SEPARATOR = b"\n-+-\n"  # between the members of an archive that a target makes
COUNT = 3
OPERATOR = "lorenz-tno"


@contextmanager
def placed(content, name):
    """A file with this content."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        (folder / name).write_bytes(content)
        yield folder / name
    finally:
        shutil.rmtree(folder)


def refused_or_read(read, content, name):
    """True if the content was read, False if it was refused in one line; everything else is a defect."""
    with placed(content, name) as path:
        try:
            read(path)
        except OperformerError as error:
            if not str(error) or "\n" in str(error) or not str(error).isprintable():
                raise AssertionError(f"no line: {error!s:.300}") from error
            return False
        return True


def samples_of(path):
    found = operformer.read(path)
    assert len(found) == len(found.u) == len(found.z)
    assert found.u.shape[2:] == found.grid.shape == found.z.shape[2:]


def inputs_of(path):
    values, grid = operformer.read_inputs(path, small_operator())
    assert values.shape[1:] == (1, *grid.shape)


@cache
def small_operator():
    return operformer.TNO(1, 1, 1, 4, n_layers=1, n_heads=2)


def arrays_of(opener, path):
    """Every array that the file says it has."""
    with opener(path) as contents:
        for array in contents.arrays.values():
            whole(array)


def npz_of(members):
    """An archive of these files; zipfile makes the checksums."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return content.getvalue()


def from_members(names, content):
    parts = content.split(SEPARATOR)
    return npz_of(dict(zip(names, parts, strict=False)))


NPZ = ("u.npy", "z.npy", "points.npy", "weights.npy", "bounds.npy", "grid_x.npy", "grid_y.npy", "counts.npy")
PT = ("archive/data.pkl", "archive/data/0", "archive/data/1", "archive/byteorder", "archive/version")


def packed_mat(content):
    """MATLAB's header, and variables that are packed here."""
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    for part in content.split(SEPARATOR):
        data = zlib.compress(part)
        head += struct.pack("<II", 15, len(data)) + data
    return head


def manifest_of(content):
    """The bytes as a manifest whose checksum is right, if they are JSON at all."""
    try:
        values = json.loads(content)
        return encode(values) if isinstance(values, dict) else content
    except (ValueError, RecursionError):
        return content


def sealed_tensors(content):
    """A header of safetensors of its true length, before the tensors of the shipped operator."""
    data = (SHIPPED / OPERATOR / "model.safetensors").read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    return struct.pack("<Q", len(content)) + content + data[start:]


def loaded(path):
    """The shipped operator with one of its files replaced."""
    for name in ("config.json", "model.safetensors"):
        if name != path.name:
            shutil.copy(SHIPPED / OPERATOR / name, path.parent)
    operformer.load(path.parent)


def npy_pair(path):
    arrays_of(partial(open_npy, outputs=path), path)


# How the bytes become a file, its name, and what reads it.
TARGETS = {
    "npy": (bytes, "u.npy", npy_pair),
    "npz": (bytes, "a.npz", samples_of),
    "npz-members": (partial(from_members, NPZ), "a.npz", samples_of),
    "npz-inputs": (partial(from_members, NPZ), "a.npz", inputs_of),
    "mat": (bytes, "a.mat", samples_of),
    "mat-packed": (packed_mat, "a.mat", partial(arrays_of, open_mat)),
    "pt": (bytes, "a.pt", samples_of),
    "pt-members": (partial(from_members, PT), "a.pt", samples_of),
    "hdf5": (bytes, "a.h5", samples_of),
    "safetensors": (bytes, "model.safetensors", loaded),
    "safetensors-header": (sealed_tensors, "model.safetensors", loaded),
    "config": (bytes, "config.json", loaded),
    "experiment-toml": (bytes, "a.toml", lambda path: find_experiment(str(path))),
    "experiment-json": (bytes, "a.json", lambda path: find_experiment(str(path))),
    "metrics": (bytes, "metrics.jsonl", read_metrics),
    "status": (bytes, "status.json", lambda path: read_status(path.parent)),
    "manifest": (bytes, "manifest.json", lambda path: Manifest.read(path.parent)),
    "manifest-sealed": (manifest_of, "manifest.json", lambda path: Manifest.read(path.parent)),
    "evaluation": (bytes, "evaluation.json", read_evaluations),
    "rollout": (bytes, "rollout.json", read_rollout),
    "calibration": (bytes, "calibration.json", read_calibration),
    "gallery": (bytes, "gallery.npz", read_gallery),
}


def attempt(target, content):
    """Whether the target reads the content; any error but the library's own comes through."""
    make, name, read = TARGETS[target]
    return refused_or_read(read, make(content), name)


def npy_bytes(values):
    content = io.BytesIO()
    np.save(content, np.asarray(values))
    return content.getvalue()


def mat_variable(name, values):
    """One variable as it stands unpacked in a .mat file."""
    data, text = values.astype("<f8").tobytes(order="F"), name.encode()
    padded = text + b"\0" * (-len(text) % 8)
    shape = struct.pack(f"<{values.ndim}i", *values.shape)
    parts = struct.pack("<IIII", 6, 8, 6, 0), struct.pack("<II", 5, len(shape)) + shape + b"\0" * (-len(shape) % 8)
    body = b"".join(parts) + struct.pack("<II", 1, len(text)) + padded + struct.pack("<II", 9, len(data)) + data
    return struct.pack("<II", 14, len(body)) + body


def torch_bytes(value):
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


def written(write, name):
    """What a writer puts into a file."""
    with placed(b"", name) as path:
        write(path)
        return path.read_bytes()


def members_of(content, names):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        known = set(archive.namelist())
        return SEPARATOR.join(archive.read(name) if name in known else b"" for name in names)


def seeds():
    """Right files to begin with, small, by target."""
    generator = torch.Generator().manual_seed(0)
    line, square = Grid.uniform(5), Grid.uniform((3, 5), kind="cells")
    points = Grid.scattered(torch.rand(7, 2, generator=generator).double())
    ragged = Grid.ragged([torch.rand(n, 2, generator=generator) for n in (5, 3, 4)])
    of = {"line": line, "square": square, "points": points, "ragged": ragged}
    every = {
        name: Samples(*torch.rand(2, COUNT, 1, *grid.shape, generator=generator), grid) for name, grid in of.items()
    }
    npz = [written(partial(operformer.write, one), "a.npz") for one in every.values()]
    hdf5 = [written(partial(operformer.write, one), "a.h5") for one in every.values()]
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file["tensor"] = np.zeros((2, 3, 5), np.float32)
        file["x-coordinate"] = np.linspace(0, 1, 5, dtype=np.float32)
        file["t-coordinate"] = np.linspace(0, 1, 3, dtype=np.float32)
    x = torch.rand(COUNT, 5, generator=generator)
    tensors = torch_bytes({"x": x, "y": x.double()})
    mat = [mat_variable(name, np.random.default_rng(0).random((3, 5))) for name in ("u", "z")]
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    operator, pairs = small_operator(), every["line"]
    evaluations = [evaluate(operator, pairs, "1x"), evaluate(operator, pairs, "2x")]
    rollout = study_rollout(operator, pairs.u, torch.rand(COUNT, 2, 1, 5, generator=generator), line, [1.0, 2.0])
    calibration = calibrate(operator, Pairs(pairs.u, pairs.z, line), alpha=0.5, spread="constant")
    gallery = Gallery({"1x": show(pairs.z, pairs, torch.rand(COUNT, generator=generator))})
    weights = (SHIPPED / OPERATOR / "model.safetensors").read_bytes()
    experiment = find_experiment("lorenz-y").to_mapping()
    shard = {"name": "shard-00000.hdf5", "count": 3, "bytes": 4000, "sha256": "0" * 64, "checks": {"residual": 1e-9}}
    header = {
        "title": "a", "origin": {"seed": 0}, "count": 3, "per_shard": 3, "dtype": "float32",
        "grid": {"kind": "nodes", "shape": [5], "bounds": [[0.0, 1.0]]},
        "fields": {"inputs": ["u"], "outputs": ["z"], "times": None, "boundary": "open", "constants": {}},
    }  # fmt: skip
    status = {
        "title": "a", "state": "training", "epoch": 1, "epochs": 2, "batch": 1, "batches": 2, "loss": 0.5,
        "best_error": None, "samples_per_second": 3.5, "seconds_left": 1.0,
    }  # fmt: skip
    metrics = {"epoch": 1, "loss": 0.5, "validation_error": 0.25, "learning_rate": 1e-3, "seconds": 1.5}
    return {
        "npy": [npy_bytes(np.zeros((2, 3), np.float32)), npy_bytes(np.asfortranarray(np.ones((3, 2))))],
        "npz": npz,
        "npz-members": [members_of(one, NPZ) for one in npz],
        "npz-inputs": [members_of(one, NPZ) for one in npz],
        "mat": [head + b"".join(mat), packed_mat(SEPARATOR.join(mat))],
        "mat-packed": [SEPARATOR.join(mat)],
        "pt": [tensors],
        "pt-members": [members_of(tensors, PT)],
        "hdf5": [*hdf5, content.getvalue()],
        "safetensors": [save({"a": torch.ones(2, 3)})],
        "safetensors-header": [weights[8 : 8 + struct.unpack("<Q", weights[:8])[0]]],
        "config": [(SHIPPED / OPERATOR / "config.json").read_bytes()],
        "experiment-toml": [NAMED[name].read_bytes() for name in sorted(NAMED)],
        "experiment-json": [json.dumps(experiment).encode()],
        "metrics": [b"".join(json.dumps(metrics | {"epoch": k}).encode() + b"\n" for k in (1, 2))],
        "status": [json.dumps(status).encode()],
        "manifest": [encode({"header": header, "shards": [shard]})],
        "manifest-sealed": [json.dumps({"header": header, "shards": [shard]}).encode()],
        "evaluation": [written(partial(write_evaluations, evaluations), "evaluation.json")],
        "rollout": [written(partial(write_rollout, rollout), "rollout.json")],
        "calibration": [written(partial(write_calibration, calibration, {}), "calibration.json")],
        "gallery": [written(partial(write_gallery, gallery), "gallery.npz")],
    }


JUNK = [
    None, True, False, 0, 1, -1, 2, 3, 7, 10**6, 10**18, -(10**30), 10**400, 0.0, -0.0, 0.5, 1e-300, 1e308, 5e-324,
    float("nan"), float("inf"), "", "a", "1x", "\x00", "\u202e", "\ud800", "x" * 300, "inf", "nodes", "scattered", [],
    [1], [0, -1], [[1]], [[]], ["y"], {}, {"name": "TNO"}, {"": 1},
]  # fmt: skip


def changed_json(content, draws):
    """The JSON with one value replaced, left out or doubled; None if it is none."""
    try:
        lines = [json.loads(line) for line in content.splitlines() if line.strip()]
        is_many = len(lines) > 1
        values = lines if is_many else json.loads(content)
    except (ValueError, RecursionError):
        try:
            is_many, values = False, json.loads(content)
        except (ValueError, RecursionError):
            return None
    holder, key, inner = None, None, values
    while isinstance(inner, dict | list) and inner and (holder is None or draws.random() < 0.8):
        holder, key = inner, draws.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        inner = holder[key]
    if holder is None:
        return None
    change = draws.random()
    if change < 0.1:
        del holder[key]
    elif change < 0.2 and isinstance(holder, list):
        holder.insert(key, inner)
    elif change < 0.2:
        holder[draws.choice(["", "name", "x", "operator"])] = inner
    else:
        holder[key] = draws.choice([*JUNK, inner, [inner], {"a": inner}])
    made = [json.dumps(line) for line in values] if is_many else [json.dumps(values)]
    return "\n".join(made).encode()


def fingerprint(content):
    """A short name for a file of the corpus."""
    return hashlib.sha256(content).hexdigest()[:16]
