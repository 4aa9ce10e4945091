"""The commands that hand an operator on, from a run that was trained: card and export."""

import re

import pytest
import torch

from operformer import Grid, load

SMALL = [
    "data.train=5", "data.validation=2", "data.test=3", "data.resolution=8", "problem.n_modes=16",
    "operator.hidden_channels=4", "operator.n_layers=1", "operator.n_heads=1", "training.epochs=1",
    "training.batch_size=5", "training.device=cpu",
]  # fmt: skip


@pytest.fixture
def run(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("train", "darcy", "operator.name=TNO", *SMALL, "--out", "mine")[0] == 0
    return tmp_path / "mine"


def test_a_run_is_handed_on(call, run, tmp_path):
    code, _, err = call("card", "mine")
    assert (code, err.count("\n")) == (3, 1)  # not evaluated
    assert "operformer evaluate" in err
    assert call("evaluate", "mine")[0] == 0
    code, out, err = call("card", "mine", "--name", str(run / "operator"))
    assert (code, err) == (0, "")
    assert "operformer.push_to_hub" in out
    text = (run / "operator" / "README.md").read_text()
    (lines,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {"u": torch.rand(2, 1, 12, 5)}
    assert len(lines.split("\n\n")) == 2  # what is imported, and what is done
    exec(lines, names)
    operator = load(run / "operator")  # which a card does not disturb
    expected = operator(names["u"], Grid.uniform((12, 5), kind="cells"))
    torch.testing.assert_close(names["z"], expected, atol=0, rtol=0)
    code, out, err = call("export", "mine", "out/tno.pt2")  # on cells, as the run was
    assert (code, err) == (0, "")
    graph = torch.export.load(tmp_path / "out" / "tno.pt2").module()
    torch.testing.assert_close(graph(names["u"]), expected, atol=1e-5, rtol=1e-5)
    code, _, err = call("export", "mine", "out/tno.txt")
    assert (code, err.count("\n")) == (2, 1)
