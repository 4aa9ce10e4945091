"""The Hub, played by a folder: what is uploaded, and that it loads again to the bit."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from operformer import FANO, TNO
from operformer.errors import DataError, ResourceError, UsageError
from operformer.sharing.hub import from_pretrained, push_to_hub

huggingface_hub = pytest.importorskip("huggingface_hub")


class FakeHub:
    """Repositories as folders; uploads keep to huggingface_hub's own rule for patterns."""

    def __init__(self, root):
        self.root, self.made = root, {}

    def HfApi(self):
        return self

    def create_repo(self, repo_id, *, private, exist_ok):
        assert exist_ok
        self.made[repo_id] = private
        (self.root / repo_id).mkdir(parents=True, exist_ok=True)
        return f"https://hub.test/{repo_id}"

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, commit_message):
        names = [path.relative_to(folder_path).as_posix() for path in Path(folder_path).rglob("*") if path.is_file()]
        for name in huggingface_hub.utils.filter_repo_objects(names, allow_patterns=allow_patterns):
            (self.root / repo_id / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(folder_path) / name, self.root / repo_id / name)

    def snapshot_download(self, repo_id, *, revision, allow_patterns):
        found = self.root / "cache" / repo_id / (revision or "main")
        found.mkdir(parents=True)
        names = [path.name for path in (self.root / repo_id).iterdir()]
        for name in huggingface_hub.utils.filter_repo_objects(names, allow_patterns=allow_patterns):
            shutil.copyfile(self.root / repo_id / name, found / name)
        return str(found)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    fake = FakeHub(tmp_path / "hub")
    for name in ("HfApi", "snapshot_download"):
        monkeypatch.setattr(huggingface_hub, name, getattr(fake, name))
    monkeypatch.chdir(tmp_path)
    return fake


def test_an_operator_goes_to_the_hub_and_comes_back(hub):
    torch.manual_seed(0)
    operator = FANO((2, 3), 2, 1, 1, hidden_channels=4, n_layers=1, n_heads=2).eval()
    operator.output_mean.fill_(3.0)
    assert push_to_hub(operator, "me/darcy-fano", private=True) == "https://hub.test/me/darcy-fano"
    assert hub.made == {"me/darcy-fano": True}
    assert {path.name for path in (hub.root / "me/darcy-fano").iterdir()} == {"config.json", "model.safetensors"}
    u = torch.randn(2, 1, 12, 15)
    torch.testing.assert_close(from_pretrained("me/darcy-fano")(u), operator(u), atol=0, rtol=0)


def test_a_folder_goes_with_its_card_and_nothing_else(hub, tmp_path):
    operator = TNO(1, 1, 1, hidden_channels=4, n_layers=1, n_heads=1)
    folder = tmp_path / "operator"
    operator.save_pretrained(folder)
    for name in ("README.md", "secret.env", "optimizer.pkl", "inner/config.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("kept at home, or a card")
    push_to_hub(folder, "me/tno")
    sent = {path.relative_to(hub.root).as_posix() for path in hub.root.rglob("*") if path.is_file()}
    assert sent == {f"me/tno/{name}" for name in ("config.json", "model.safetensors", "README.md")}
    assert from_pretrained(folder).settings == operator.settings  # a folder needs no Hub
    assert from_pretrained("me/tno", revision="v1").settings == operator.settings


def test_what_does_not_load_is_not_uploaded(hub, tmp_path):
    (tmp_path / "broken").mkdir()
    with pytest.raises(DataError, match=r"config\.json"):
        push_to_hub(tmp_path / "broken", "me/broken")
    assert hub.made == {}


@pytest.mark.parametrize("name", ["tno", "a/b/c", "me/ tno", "", "../tno\n"])
def test_names_that_are_none(hub, name):
    with pytest.raises(UsageError, match="owner/name"):
        from_pretrained(name or "\t")
    with pytest.raises(UsageError, match="owner/name"):
        push_to_hub(TNO(1, 1, 1, 4, n_layers=1, n_heads=1), name)


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ResourceError, match=r"pip install 'operformer\[hub\]'"):
        from_pretrained("me/tno")


def test_no_network_is_one_line(monkeypatch, tmp_path):
    api = huggingface_hub.HfApi(endpoint="http://127.0.0.1:9", token="none")
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", api.snapshot_download)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ResourceError, match=r"cannot upload to me/tno: .*refused"):
        push_to_hub(TNO(1, 1, 1, 4, n_layers=1, n_heads=1), "me/tno")
    with pytest.raises(ResourceError, match="cannot fetch me/tno: "):
        from_pretrained("me/tno")
