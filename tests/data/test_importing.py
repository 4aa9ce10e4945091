"""Pairs from elsewhere: kept as they are, and never taken for others."""

import numpy as np
import pytest
import torch
from sets import GRIDS, assert_same_pairs, content, pairs

from operformer.data import generation, importing
from operformer.data.importing import import_pairs, store
from operformer.data.store import Imported, open_pairs
from operformer.domain import Grid, Samples
from operformer.errors import DataError, ResourceError, UsageError

ORIGIN = {"file": "mine.npz", "options": {"layout": "b x y", "steps": (0, -1)}}


def test_it_is_divided_as_a_generated_set(tmp_path, monkeypatch):
    samples = pairs(GRIDS["cells 2d"], 23)
    monkeypatch.setattr(generation, "SHARD_BYTES", 5 * 5 * 7 * 5 * 4)
    stored = store(samples, tmp_path / "set", "mine", ORIGIN)
    assert [shard.count for shard in stored.manifest.shards] == [5, 5, 5, 5, 3]
    assert_same_pairs(stored.read(), samples)
    header = stored.manifest.header
    names = header.fields.inputs, header.fields.outputs
    assert (header.title, *names) == ("mine", ("u_0", "u_1"), ("z_0", "z_1", "z_2"))
    assert header.origin["file"] == "mine.npz"
    assert header.origin["options"] == {"layout": "b x y", "steps": [0, -1]}
    worst = [shard.checks["residual"] for shard in stored.manifest.shards]
    assert worst == [float(samples.checks["residual"][k : k + 5].max()) for k in range(0, 23, 5)]
    monkeypatch.setattr(generation, "SHARD_BYTES", 1)
    large = store(pairs(GRIDS["cells 2d"], 3), tmp_path / "large", "mine", {})  # a file for each
    assert [shard.count for shard in large.manifest.shards] == [1, 1, 1]


def test_the_same_again_changes_nothing_and_mends(tmp_path):
    samples = pairs(GRIDS["scattered 2d"])
    store(samples, tmp_path / "one", "mine", ORIGIN)
    before = content(tmp_path / "one")
    store(samples, tmp_path / "one", "mine", ORIGIN)
    assert content(tmp_path / "one") == before
    (tmp_path / "one" / "shard-00000.hdf5").write_bytes(b"damaged")
    store(samples, tmp_path / "one", "mine", ORIGIN)
    assert content(tmp_path / "one") == before


def other_value(samples):
    z = samples.z.clone()
    z[7, 1, 2, 3] = z[7, 1, 2, 3].nextafter(torch.tensor(9.0))
    return Samples(samples.u, z, samples.grid)


def other_points(samples):
    grid = samples.grid
    return Samples(samples.u, samples.z, Grid.rectilinear(*(0.9 * axis for axis in grid.axes), bounds=grid.bounds))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (other_value, "sha256"),
        (other_points, "sha256"),
        (lambda samples: samples.to(dtype=torch.float64), "sha256"),
        (lambda samples: samples[:11], "count"),
    ],
    ids=["value", "points", "precision", "count"],
)
def test_a_file_that_changed_is_not_taken_for_the_old_one(tmp_path, change, what):
    samples = pairs(GRIDS["rectilinear 2d"])
    store(samples, tmp_path, "mine", ORIGIN)
    before = content(tmp_path)
    with pytest.raises(UsageError, match=f"holds another set: its {what} is"):
        store(change(samples), tmp_path, "mine", ORIGIN)
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("u", "z", "kept"),
    [
        (torch.float16, torch.float16, torch.float32),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float32, torch.float64, torch.float64),
        (torch.float64, torch.float32, torch.float64),
    ],
)
def test_other_precisions_become_one_of_two(tmp_path, u, z, kept):
    samples = pairs(GRIDS["cells 2d"], dtype=torch.float64)
    given = Samples(samples.u.to(u), samples.z.to(z), samples.grid)
    store(given, tmp_path, "mine", {})
    read = open_pairs(tmp_path).read()
    assert_same_pairs(read, given.to(dtype=kept))


def test_it_goes_on_after_an_interruption(tmp_path, monkeypatch):
    samples = pairs(GRIDS["cells 2d"], 23)
    monkeypatch.setattr(generation, "SHARD_PAIRS", 5)
    store(samples, tmp_path / "whole", "mine", ORIGIN)
    save, made = importing.save_shard, []

    def interrupted(*arguments):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(save(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(importing, "save_shard", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store(samples, tmp_path / "part", "mine", ORIGIN)
    assert generation.shards_made(tmp_path / "part") == (2, 5)
    again = []
    monkeypatch.setattr(importing, "save_shard", lambda *arguments: again.append(save(*arguments)))
    store(samples, tmp_path / "part", "mine", ORIGIN)
    assert len(again) == 3
    assert content(tmp_path / "part") == content(tmp_path / "whole")


def test_no_pairs_and_no_space_are_refused(tmp_path, monkeypatch):
    samples, usage = pairs(GRIDS["cells 2d"]), generation.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(generation.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(UsageError, match="no pairs"):
        store(samples[:0], tmp_path / "set", "mine", {})
    with pytest.raises(ResourceError, match="make room"):
        store(samples, tmp_path / "set", "mine", {})
    assert not (tmp_path / "set").exists()


def test_channels_keep_the_names_of_the_file_and_samples_may_be_left_out(tmp_path):
    u, z = torch.rand(70, 9, 2).numpy(), torch.rand(70, 9).numpy()
    np.savez(tmp_path / "mine.npz", permeability=u, head=z)
    names = {
        "u": ["permeability"],
        "z": ["head"],
        "layout": ("b t c", "b t"),
        "grid": "nodes",
    }  # a series, whose axis is time
    stored = import_pairs(tmp_path / "mine.npz", tmp_path / "set", **names, skip=[69, 3])
    fields = stored.manifest.header.fields
    assert (fields.inputs, fields.outputs) == (("permeability_0", "permeability_1"), ("head",))
    kept = [k for k in range(70) if k not in (3, 69)]
    np.testing.assert_array_equal(stored.read().z[:, 0], z[kept])
    assert Imported(str(tmp_path / "set")).output_names == ("head",)
    with pytest.raises(UsageError, match="samples to skip are 0 to 69: got 70"):
        import_pairs(tmp_path / "mine.npz", tmp_path / "other", **names, skip=[70])
    np.savez(tmp_path / "two.npz", u=u, z=u[:, ::2, :1])
    with pytest.raises(DataError, match="different grids"):
        import_pairs(tmp_path / "two.npz", tmp_path / "two")
    with pytest.raises(DataError, match="different grids of 9 and 5 points"):
        import_pairs(tmp_path / "two.npz", tmp_path / "two", layout="b x c")
