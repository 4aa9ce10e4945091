"""Files that are whole or not there, also when the disk is full or somebody presses Ctrl-C."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from operformer import files
from operformer.errors import DataError, ResourceError
from operformer.files import (
    GoneError,
    check_file,
    flush_folder,
    held,
    read_bytes,
    read_json,
    remove,
    remove_folder,
    rename,
    sweep,
    write_bytes,
    write_json,
)

NAMES = ("fsync", "replace")


def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail


def full():
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_content_arrives_in_folders_that_were_not_there(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    write_bytes(path, b"\x00one\n")
    assert path.read_bytes() == b"\x00one\n"
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "file", b"")
        assert os.umask(0o027) == 0o027  # looking at the mask does not change it
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("existed", [True, False])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, name, existed):
    path = tmp_path / "file"
    if existed:
        path.write_bytes(b"old")
    monkeypatch.setattr(os, name, raising(full()))
    with pytest.raises(ResourceError, match="the disk is full") as caught:
        write_bytes(path, b"new")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == (["file"] if existed else [])
    assert not existed or path.read_bytes() == b"old"


@pytest.mark.parametrize("name", NAMES)
def test_an_interruption_leaves_what_was_there(tmp_path, monkeypatch, name):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, name, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        write_bytes(path, b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ResourceError, match="folder"):
        write_bytes(tmp_path / "folder", b"new")
    assert os.listdir(tmp_path) == ["folder"]
    assert (tmp_path / "folder").is_dir()


def test_a_file_in_place_of_a_parent_folder_is_a_resource_error(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(ResourceError, match="file"):
        write_bytes(tmp_path / "file" / "below" / "it", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], {"a": float("-inf")}])
def test_json_without_numbers_is_refused_before_anything_is_written(tmp_path, value):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1.5})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, value)
    assert read_json(path) == {"a": 1.5}
    assert os.listdir(tmp_path) == ["value.json"]


def test_json_keeps_every_bit_of_a_number(tmp_path):
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 2**60 + 1, None, True, "√"]
    write_json(tmp_path / "value.json", values)
    assert read_json(tmp_path / "value.json") == values


@pytest.mark.parametrize("read", [read_bytes, read_json])
def test_what_cannot_be_read_is_named(tmp_path, read):
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "nowhere" / "file"):
        with pytest.raises(DataError, match="cannot read") as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1}}', b"\xff\xfe\x00", b"{'a': 1}\n\n", b"nan"])
def test_what_is_not_json_is_named(tmp_path, content):
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not JSON") as caught:
        read_json(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_is_flushed_and_its_descriptor_closed(tmp_path, monkeypatch):
    flushed = []
    before = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    flush_folder(tmp_path)
    assert flushed == [tmp_path.stat().st_ino]
    monkeypatch.setattr(os, "fsync", raising(full()))
    with pytest.raises(OSError, match="space"):
        flush_folder(tmp_path)
    assert len(os.listdir("/dev/fd")) == before


def test_what_is_no_plain_file_or_too_large_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(DataError, match="no plain file"):
            read_bytes(tmp_path / name)
    (tmp_path / "file").write_bytes(b"12345")
    check_file(tmp_path / "file", 5)
    with pytest.raises(DataError, match="it has 5 bytes where at most 4 belong"):
        read_bytes(tmp_path / "file", 4)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a": NaN}', b"-Infinity"])
def test_json_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "value.json").write_bytes(content)
    with pytest.raises(DataError, match="is not JSON"):
        read_json(tmp_path / "value.json")


def test_what_a_killed_write_left_is_swept_away_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", raising(SystemExit()))
    monkeypatch.setattr(os, "unlink", lambda *_, **__: None)  # a killed process removes nothing
    with pytest.raises(SystemExit):
        write_bytes(tmp_path / "file", b"half")
    monkeypatch.undo()
    (left,) = os.listdir(tmp_path)
    for name in (".lock", ".gitignore", "file"):
        (tmp_path / name).write_bytes(b"")
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".gitignore", ".lock", "file"]
    assert left.startswith(".file.")
    sweep(tmp_path / "nowhere")


# Folders that are held


@pytest.fixture(params=[True, False], ids=["by handle", "by path"])
def folder(request, tmp_path, monkeypatch):
    """A folder to hold; on Windows there are no handles of folders."""
    monkeypatch.setattr(files, "HAS_HANDLES", request.param)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"somebody's")
    return tmp_path / "run"


def test_a_held_folder_is_written_to_as_any_other(folder):
    with held(folder):
        write_bytes(folder / "a" / "b" / "file", b"one")
        write_bytes(folder / "file", b"two")
        rename(folder / "a", folder / "c")
        flush_folder(folder / "c")
        assert (folder / "c" / "b" / "file").read_bytes() == b"one"
        remove_folder(folder / "c")
        remove(folder / "file")
        remove(folder / "file")
        assert os.listdir(folder) == []
        remove(folder / "nowhere" / "file")


@pytest.mark.parametrize("below", ["", "inner/"])
def test_no_link_inside_a_held_folder_is_followed(folder, below):
    outside = folder.with_name("outside")
    with held(folder):
        write_bytes(folder / f"{below}first", b"")
        (folder / below / "link").symlink_to(outside)
        (folder / below / "file").symlink_to(outside / "file")
        with pytest.raises(DataError, match="is a link"):
            write_bytes(folder / f"{below}link" / "new", b"new")
        with pytest.raises(DataError, match="is a link"):
            remove(folder / f"{below}link" / "file")
        remove_folder(folder / f"{below}link")
        write_bytes(folder / f"{below}file", b"new")
        assert not (folder / below / "file").is_symlink()
    assert os.listdir(outside) == ["file"]
    assert (outside / "file").read_bytes() == b"somebody's"


@pytest.mark.parametrize("others", ["nothing", "a folder", "a link"])
def test_nothing_is_written_once_a_held_folder_has_gone(folder, others):
    elsewhere = folder.with_name("elsewhere")
    with held(folder):
        write_bytes(folder / "file", b"old")
        folder.rename(elsewhere)
        if others == "a folder":
            folder.mkdir()
        if others == "a link":
            folder.symlink_to(folder.with_name("outside"))
        for action in (
            lambda: write_bytes(folder / "file", b"new"),
            lambda: write_bytes(folder / "inner" / "file", b"new"),
            lambda: remove(folder / "file"),
            lambda: held(folder).__enter__(),
        ):
            with pytest.raises(GoneError, match=f"{folder} was .* while in use"):
                action()
    assert (elsewhere / "file").read_bytes() == b"old"
    assert os.listdir(elsewhere) == ["file"]
    assert os.listdir(folder.with_name("outside")) == ["file"]
    assert folder.exists() == (others != "nothing")


def test_a_file_that_must_stay_is_missed(folder):
    with held(folder):
        write_bytes(folder / "status", b"", is_lasting=False)
        write_bytes(folder / "inner" / "file", b"")
        (folder / "status").unlink()
        write_bytes(folder / "file", b"")
        remove(folder / "file")
        write_bytes(folder / "other", b"")
        (folder / "inner" / "file").unlink()
        (folder / "inner").rmdir()
        with pytest.raises(GoneError, match="inner was deleted"):
            write_bytes(folder / "last", b"")
    assert sorted(os.listdir(folder)) == ["other"]


def test_a_folder_that_is_held_already_is_the_same_one(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    descriptors = len(os.listdir("/dev/fd"))
    with held(folder) as one:
        for other in ("run", "./run", "run/../run"):
            with held(type(folder)(other)) as found:
                assert found is one
        folder.with_name("link").symlink_to(folder)
        with held(folder.with_name("link")) as found:
            assert found is one
    assert not files._held
    assert len(os.listdir("/dev/fd")) == descriptors


def test_the_first_write_of_a_process_removes_what_a_killed_one_has_left(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    mine, other = (f".file.0.{socket.gethostname()}.{process}.partial" for process in (os.getpid(), dead.pid))
    for name in (mine, other, ".file.0.another-machine.1.partial"):
        (tmp_path / name).write_bytes(b"half")
    write_bytes(tmp_path / "file", b"")
    assert sorted(os.listdir(tmp_path)) == sorted([".file.0.another-machine.1.partial", mine, "file"])
