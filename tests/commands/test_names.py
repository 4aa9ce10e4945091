"""Names and units of channels, from a file to everything that is made of it."""

import json
import re

import h5py
import numpy as np
import pytest
from scipy.io import netcdf_file

from operformer import open_pairs
from operformer.cli import main
from operformer.data.importing import import_pairs
from operformer.files import read_json

SMALL = ("operator.name=SpectralOperator", "operator.n_modes=[3,3]", "operator.hidden_channels=4",
         "operator.n_layers=1", "training.epochs=1", "training.learning_rate=1e-3")  # fmt: skip


def command(*words):
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    assert left.value.code == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A NetCDF file with two inputs, one of which has no unit, trained on and evaluated."""
    home = tmp_path_factory.mktemp("names")
    draws = np.random.default_rng(0).normal(size=(3, 20, 1, 1))
    x, y = np.linspace(0, 1, 11), np.linspace(0, 1, 13)
    wave = np.cos(x)[:, None] * np.sin(1 + y)
    with netcdf_file(home / "flow.nc", "w") as file:
        for name, size in (("sample", 20), ("x", 11), ("y", 13)):
            file.createDimension(name, size)
        for name, values in (("x", x), ("y", y)):
            file.createVariable(name, "d", (name,))[:] = values
        for k, (name, unit) in enumerate((("temp", "K"), ("porosity", None), ("speed", "m s-1"))):
            variable = file.createVariable(name, "f", ("sample", "x", "y"))
            variable[:] = (2 + draws[k]) * wave
            if unit:
                variable.units = unit
    command("import", home / "flow.nc", "--u", "temp", "porosity", "--z", "speed", "--out", home / "set")
    command("train", home / "set", *SMALL, "--out", home / "run", "--minutes", 0.01)
    command("evaluate", home / "run")
    return home


def test_they_are_in_the_set_the_report_the_card_and_the_graph(folder, monkeypatch):
    fields = open_pairs(folder / "set").manifest.header.fields
    assert (fields.inputs, fields.outputs) == (("temp", "porosity"), ("speed",))
    assert fields.units == {"temp": "K", "speed": "m s-1"}
    command("report", folder / "run")
    page = (folder / "run" / "report.html").read_text()
    assert all(json.dumps(label) in page for label in ("temp [K]", "porosity", "speed [m s-1]"))
    command("card", folder / "run")
    assert "temp [K], porosity to speed [m s-1]" in (folder / "run" / "operator" / "README.md").read_text()
    told = []  # tests/sharing/test_exporting.py reads them in the graph
    monkeypatch.setattr("operformer.sharing.exporting.export", lambda *given, units: told.extend((given[3], units)))
    command("export", folder / "run", folder / "run.onnx")
    assert told == [(("temp", "porosity"), ("speed",)), {"temp": "K", "speed": "m s-1"}]


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_they_are_in_the_file_of_predict_which_is_imported_with_them(folder, suffix):
    out = folder / f"out{suffix}"
    command("predict", folder / "run", folder / "set", "--out", out)
    import_pairs(out, folder / f"again{suffix}")
    fields = open_pairs(folder / f"again{suffix}").manifest.header.fields
    assert (fields.inputs, fields.outputs) == (("temp", "porosity"), ("speed",))
    assert fields.units == {"temp": "K", "speed": "m s-1"}
    with h5py.File(out) if suffix == ".h5" else np.load(out) as file:
        version = file["version"][()]
        assert re.fullmatch(r"\d+\.\d+\.\d+", version.decode() if suffix == ".h5" else str(version))


def test_texts_that_are_no_names_or_units_are_left_out(tmp_path):
    values = np.random.default_rng(0).normal(size=(10, 2, 17))
    x = np.linspace(0, 1, 17)
    for names, units in ((["a"], ["K"]), (["../a", "b"], ["K", "K"]), (["a", "a"], ["K", "K"])):
        np.savez(tmp_path / "odd.npz", u=values, z=values, x=x, u_names=names, u_units=units, z_units=["\x1b[31m", "K"])
        import_pairs(tmp_path / "odd.npz", tmp_path / "set", layout="b c x")
        fields = read_json(tmp_path / "set" / "manifest.json")["header"]["fields"]
        assert (fields["inputs"], fields["units"]) == (["u_0", "u_1"], {})
        for path in sorted((tmp_path / "set").iterdir()):
            path.unlink()
    np.savez(tmp_path / "objects.npz", u=values, z=values, x=x, u_names=np.array([{}, {}], dtype=object))
    assert import_pairs(tmp_path / "objects.npz", tmp_path / "set", layout="b c x").channels == (2, 2)
