"""The manifest: what was written comes back, and nothing else is taken for it."""

import copy
import json
import time
from dataclasses import replace

import pytest
from sets import GRIDS

from operformer.data import manifest
from operformer.data.manifest import (
    MANIFEST,
    Fields,
    GridRecord,
    Header,
    Manifest,
    ShardRecord,
    decode,
    encode,
    read_header,
    shard_name,
)
from operformer.errors import DataError, UsageError

FIELDS = Fields(("a",), ("p", "q"), None, "wall", {"tau": 1 / 3})
HEADER = Header(
    "test", {"seed": 3, "problem": {"name": "X"}}, 23, 5, "float32", GridRecord.of(GRIDS["nodes 3d"]), FIELDS
)
COUNTS = (5, 5, 5, 5, 3)
PAIR = 3 * 3 * 5 * 7 * 4
SHARDS = tuple(
    ShardRecord(shard_name(k), n, n * PAIR + 1000, f"{k:064x}", {"residual": 0.1 * k}) for k, n in enumerate(COUNTS)
)


@pytest.fixture
def values(tmp_path):
    """The plain values of a good manifest."""
    Manifest(HEADER, SHARDS).write(tmp_path)
    return decode(tmp_path / MANIFEST)


def test_it_comes_back(tmp_path):
    for record in map(GridRecord.of, GRIDS.values()):
        header = replace(HEADER, grid=record)
        shards = tuple(replace(shard, bytes=shard.count * header.bytes_per_pair) for shard in SHARDS)
        Manifest(header, shards).write(tmp_path)
        found = Manifest.read(tmp_path)
        assert found == Manifest(header, shards)
        assert read_header(tmp_path / MANIFEST) == header


def test_pairs_are_divided():
    assert HEADER.n_shards == 5
    assert HEADER.bytes_per_pair == PAIR
    assert [HEADER.shard_range(k) for k in range(5)] == [(0, 5), (5, 10), (10, 15), (15, 20), (20, 23)]
    for part in range(3):
        mine = range(part, 5, 3)
        assert HEADER.pairs_in(mine) == sum(COUNTS[k] for k in mine)
    assert replace(HEADER, count=25).pairs_in(range(5)) == 25
    assert replace(HEADER, count=10**15).pairs_in(range(2 * 10**14)) == 10**15


def test_the_same_set_gives_the_same_bytes(tmp_path, values):
    path = tmp_path / MANIFEST
    good = path.read_bytes()
    Manifest(HEADER, SHARDS).write(tmp_path)
    assert path.read_bytes() == good


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"3", b'{"checksum": 3}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000,
        b"9" * 100_000, b'{"checksum": NaN}', b'{"a": "\\ud800"}', b"\x00" * 10_000,
    ],
    ids=lambda content: repr(content[:12]),
)  # fmt: skip
def test_what_is_no_manifest_is_refused(tmp_path, content):
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        Manifest.read(tmp_path)


def test_one_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(DataError, match="bytes where at most"):
        Manifest.read(tmp_path)
    monkeypatch.setattr(manifest, "LARGEST", 10)
    Manifest(HEADER, SHARDS).write(tmp_path)
    with pytest.raises(DataError, match="bytes where at most 10 belong"):
        Manifest.read(tmp_path)
    with pytest.raises(DataError, match=r"cannot read .*no such file"):  # as if another process had just removed it
        decode(tmp_path / ".shard-00003.hdf5.record")


# Manifests by somebody who can compute a checksum: (where, what stands there).

HOSTILE = [
    *((("shards", 1, "name"), name) for name in (
        "../shard-00001.hdf5", "/etc/passwd", "/tmp/shard-00001.hdf5", "", ".", "..", "a/../shard-00001.hdf5",
        "shard-00000.hdf5", "manifest.json", "shard-00001.hdf5\x00", "x" * 100_000, "\x1b[2J", 3, None, ["a"],
    )),
    *((("shards", 1, "count"), count) for count in (0, -5, 4, 6, 10**18, 5.0, "5", True, None)),
    *((("shards", 1, "bytes"), size) for size in (0, -1, 5 * PAIR - 1, "9", None)),
    *((("shards", 1, "sha256"), digest) for digest in (3, None, ["0"])),
    *((("shards", 1, "checks"), checks) for checks in (3, None, "x", [1.0], {"residual": "x"}, {"residual": None})),
    *((("shards", 1), record) for record in (3, None, "x", [], {}, {"name": "shard-00001.hdf5"})),
    *((("shards",), shards) for shards in (3, None, "x", {}, [], [{}] * 5)),
    *((("header", "count"), count) for count in (0, -1, 24, 10**18, 10**300, 23.0, "23", None, True)),
    *((("header", "per_shard"), count) for count in (0, -1, 1, 23, 10**18, "5", None)),
    *((("header", "dtype"), dtype) for dtype in ("float16", "object", "int8", 3, None, ["float32"])),
    *((("header", "origin"), origin) for origin in (3, None, "x", [1])),
    *((("header", "title"), title) for title in (3, None, {})),
    *((("header", "grid"), grid) for grid in (3, None, "x", [], {})),
    *((("header", "grid", "kind"), kind) for kind in ("sphere", 3, None, ["nodes"])),
    *((("header", "grid", "shape"), shape) for shape in (
        [], [0], [-3, -5, 7], [3, 5], [3, 5, 7, 1000], [10**9, 10**9, 10**9], [3.0, 5.0, 7.0], "357", None, [True] * 3,
    )),
    *((("header", "grid", "bounds"), bounds) for bounds in (3, None, [3], [["a", "b"]] * 3, [[0, 10**400]] * 3)),
    *((("header", "fields"), fields) for fields in (3, None, "x", [], {})),
    *((("header", "fields", "inputs"), names) for names in ([], "a", [3], None, [["a"]])),
    *((("header", "fields", "outputs"), names) for names in ([], "a", [3], None, ["p"] * 100_000)),
    *((("header", "fields", "times"), times) for times in ([], [0.0], [0.0, 1.0], "x", [None] * 3)),
    *((("header", "fields", "boundary"), boundary) for boundary in ("leaky", 3, None)),
    *((("header", "unknown"), value) for value in (3, "\x1b[2J")),
    *((("header",), header) for header in (3, None, "x", [], {})),
]  # fmt: skip


def put(values, where, what):
    changed = copy.deepcopy(values)
    place = changed
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = what
    return changed


def test_hostile_manifests_are_refused_at_once(tmp_path, values):
    path = tmp_path / MANIFEST
    for where, what in HOSTILE:
        path.write_bytes(encode(put(values, where, what)))
        began = time.process_time()
        with pytest.raises(DataError) as caught:
            pytest.fail(f"{where} may be {what!r}: {Manifest.read(tmp_path)}")
        assert time.process_time() - began < 1, (where, what)  # of this process: others may be busy
        message = str(caught.value)
        assert str(path) in message
        assert message.isprintable()
        assert len(message) < 600
    assert len(HOSTILE) >= 100


def test_other_formats_and_parts_that_are_missing_are_refused(tmp_path, values, monkeypatch):
    path = tmp_path / MANIFEST
    path.write_bytes(json.dumps(json.loads(path.read_bytes())).encode())  # the same values, written otherwise
    with pytest.raises(DataError, match="damaged"):
        Manifest.read(tmp_path)
    for key in ("header", "shards"):
        path.write_bytes(encode({name: value for name, value in values.items() if name != key}))
        with pytest.raises(DataError, match="is no manifest of pairs"):
            Manifest.read(tmp_path)
    path.write_bytes(encode(values))
    monkeypatch.setattr(manifest, "FORMAT", 2)
    with pytest.raises(DataError, match=r"manifest\.json"):
        Manifest.read(tmp_path)


def test_a_header_makes_sense():
    for changed in ({"count": 0}, {"per_shard": 0}, {"fields": Fields((), ("p",))}, {"origin": 3}):
        with pytest.raises(UsageError):
            replace(HEADER, **changed)
