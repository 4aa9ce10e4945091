"""A set of samples made on disk: by several processes or machines, and again after a kill, to the same bytes.

A shard is the unit of work. It depends on the header and on its index alone: every process computes on one thread, in
blocks that begin where the shard begins. A finished shard is a file and, beside it, a record of its checksum. When all
records are there, they become the manifest and are removed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

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
from operformer.data.shard import encode as encode_shard
from operformer.data.store import checksum
from operformer.data.workers import in_processes
from operformer.domain import Samples
from operformer.domain.samples import concatenate
from operformer.errors import DataError, ResourceError, UsageError
from operformer.files import PARTIAL, held, refuse_links, remove, remove_abandoned, write_bytes
from operformer.problems import describe
from operformer.problems.problem import Problem, check_draws
from operformer.settings import construct
from operformer.text import shown

UNFINISHED = "unfinished.json"
SHARD_BYTES = 64 * 2**20
SHARD_PAIRS = 256
LAST_PAIR = 2**62
Report = Callable[[int], None]


@dataclass(frozen=True)
class Draw:
    """Which samples to draw, and how they are stored.

    Args:
        count: How many samples.
        resolution: Points along each axis; time steps for problems in time.
        seed: The same seed is the same draw at every resolution.
        first: The first sample of the draw. Test samples begin where training samples end.
        dtype: How values are stored; they are computed in float64.
        per_shard: Samples in a file; as many as fit into 64 MiB, at most 256, if None.
    """

    count: int
    resolution: int
    seed: int = 0
    first: int = 0
    dtype: Literal["float32", "float64"] = "float32"
    per_shard: int | None = None

    def __post_init__(self) -> None:
        check_draws(self.count, self.seed, self.first)
        if self.first + self.count > LAST_PAIR:
            raise UsageError(f"a draw has {LAST_PAIR} pairs: got {self.count} from pair {self.first} on")
        if self.dtype not in ("float32", "float64"):
            raise UsageError(f'dtype must be "float32" or "float64": got {self.dtype!r}')
        if self.per_shard is not None and not 1 <= self.per_shard < 2**62:
            raise UsageError(f"a shard must hold at least one pair, and fewer than 2^62: got {self.per_shard}")


@dataclass(frozen=True)
class Share:
    """The part of a set that this process makes.

    Args:
        part: Which part, from 0.
        parts: How many parts there are.
        workers: Processes on the CPU.
        device: Where to compute.
    """

    part: int = 0
    parts: int = 1
    workers: int = 1
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts:
            raise UsageError(f"part must be from 0 to parts - 1: got part {self.part} of {self.parts}")
        if self.workers < 1:
            raise UsageError(f"workers must be at least 1: got {self.workers}")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ResourceError('the device is "cuda", but no CUDA device was found; leave it out for the CPU')


class Progress(Protocol):
    """Who hears of the progress."""

    def found(self, count: int) -> None:
        """``count`` samples were there already."""

    def __call__(self, count: int) -> None:
        """So many more are made."""


def generate(
    problem: Problem, draw: Draw, folder: str | Path, share: Share | None = None, report: Progress | None = None
) -> bool:
    """Make the set in the folder, or this process's share of it. Files that are whole are not made again.

    Args:
        problem: The law to draw from.
        draw: Which samples, and how they are stored.
        folder: Where the set is made. It is empty, does not exist, or holds the same set unfinished.
        share: The part that this process makes, and by how many workers; all of it, by one, by default.
        report: Hears of the progress, in samples.

    Returns:
        Whether the set is whole now.
    """
    folder, share = Path(folder), share or Share()
    header = make_header(problem, draw)
    mine = range(share.part, header.n_shards, share.parts)
    todo = begin(folder, header, mine)
    if report is not None:
        report.found(header.pairs_in(mine) - sum(header.pairs_in(range(index, index + 1)) for index in todo))
    hear: Report = report or (lambda count: None)
    tasks = [partial(_make, problem, draw, folder, header, share.device, index) for index in todo]
    with held(folder, create=False):
        if share.workers == 1 or share.device == "cuda" or len(tasks) < 2:
            for task in tasks:
                task(hear)
        else:
            in_processes(tasks, min(share.workers, len(tasks)), hear)
        return finish(folder, header, todo)


def make_header(problem: Problem, draw: Draw) -> Header:
    """What the set of a draw will be."""
    law = describe(problem)
    grid = GridRecord.of(problem.grid(draw.resolution))
    constants = {name: float(value) for name, value in law.items() if type(value) in (int, float)}
    fields = Fields(problem.input_names, problem.output_names, problem.times, problem.boundary, constants)
    origin = {"problem": law, "resolution": draw.resolution, "seed": draw.seed, "first": draw.first}
    header = Header(type(problem).__name__, json.loads(json.dumps(origin)), draw.count, 1, draw.dtype, grid, fields)
    return pairs_per_shard(header, draw.per_shard)


def pairs_per_shard(header: Header, given: int | None = None) -> Header:
    """The header with so many pairs in a shard, or as many as make a file of a size that is easily moved."""
    return replace(header, per_shard=given or max(1, min(SHARD_PAIRS, SHARD_BYTES // header.bytes_per_pair)))


def _make(problem: Problem, draw: Draw, folder: Path, header: Header, device: str, index: int, report: Report) -> None:
    """Draw, solve, write and record one shard."""
    start, stop = header.shard_range(index)
    size, parts = problem.block[device], []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for first in range(start, stop, size):
            count = min(size, stop - first)
            drawn = problem.sample(count, draw.resolution, draw.seed, device, draw.first + first)
            parts.append(drawn.to("cpu", getattr(torch, draw.dtype)))
            report(count)
    finally:
        torch.set_num_threads(threads)
    save_shard(folder, header, index, concatenate(parts))


def save_shard(folder: Path, header: Header, index: int, samples: Samples) -> None:
    """Write a shard, then its record."""
    name = shard_name(index)
    content = encode_shard(samples, header.fields, header.title)
    checks = {check: float(values.max()) for check, values in samples.checks.items()}
    record = ShardRecord(name, len(samples), len(content), hashlib.sha256(content).hexdigest(), checks)
    with held(folder, create=False):  # a worker's own: it makes no folder anew that was removed
        write_bytes(folder / name, content, is_lasting=False)
        write_bytes(_record_path(folder, index), encode(asdict(record)), is_lasting=False)


def _record_path(folder: Path, index: int) -> Path:
    return folder / f".{shard_name(index)}.record"


def begin(folder: Path, header: Header, mine: range) -> list[int]:
    """Make the folder this set's; which of the shards are to be made. Nothing is written unless there is room."""
    refuse_links(folder)
    remove_abandoned(folder)
    is_claimed = belongs(folder, header)
    there = sum(1 for _ in folder.glob("shard-*")) if is_claimed else 0
    _check_space(folder, header, len(mine) - there)  # before they are counted one by one
    todo = _to_be_made(folder, mine)
    _check_space(folder, header, len(todo))
    if not is_claimed:
        write_bytes(folder / UNFINISHED, encode({"header": header.plain}))
    return todo


def belongs(folder: Path, header: Header) -> bool:
    """Whether the folder is this set's already; one that is another's, or holds other files, is refused."""
    for name in (MANIFEST, UNFINISHED):
        if (folder / name).is_file():
            try:
                there = decode(folder / name).get("header")
            except DataError:
                if (folder / name).is_file():
                    raise
                return belongs(folder, header)  # another process has finished the set since we looked
            _refuse_another(folder, there, json.loads(json.dumps(header.plain)))
            return True
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise ResourceError(f"cannot look into {folder}: {(error.strerror or '').lower()}") from None
    if names & {MANIFEST, UNFINISHED} and any((folder / name).is_file() for name in (MANIFEST, UNFINISHED)):
        return belongs(folder, header)  # another process has begun, or finished, since we looked
    if any(not name.endswith(PARTIAL) for name in names):
        raise UsageError(f"{folder} holds other files; give a folder that is empty or does not exist")
    return False


_TOLD_FIRST = {"title": 0, "count": 1, "origin": 2}


def _refuse_another(folder: Path, there: Any, wanted: Mapping[str, Any], name: str = "") -> None:
    """Refuse a set that differs, and say in what."""
    if there == wanted:
        return
    if isinstance(there, dict) and isinstance(wanted, dict):
        for key in sorted(wanted, key=lambda key: (_TOLD_FIRST.get(key, 9), key)):
            _refuse_another(folder, there.get(key), wanted[key], key)
    found, asked = (shown(json.dumps(value), quoted=False) for value in (there, wanted))
    raise UsageError(
        f"{folder} holds another set: its {name or 'header'} is {found}, not {asked}; give another folder or remove "
        "this one"
    )


def shards_made(folder: Path) -> tuple[int, int]:
    """How many shards of an unfinished set are there, and how many it will have."""
    return len(list(folder.glob(".shard-*.record"))), read_header(folder / UNFINISHED).n_shards


def _to_be_made(folder: Path, indices: Sequence[int]) -> list[int]:
    """The shards that are not there, or not what their record, or the manifest, says they are."""
    shards = Manifest.read(folder).shards if (folder / MANIFEST).is_file() else None

    def is_made(index: int) -> bool:
        path = folder / shard_name(index)
        if not path.is_file():
            return False
        try:
            record = shards[index] if shards else _record(folder, index)
        except DataError:
            return False
        return path.stat().st_size == record.bytes and checksum(path) == record.sha256

    return [index for index in indices if not is_made(index)]


def _record(folder: Path, index: int) -> ShardRecord:
    return construct(ShardRecord, decode(_record_path(folder, index)), "record")


def finish(folder: Path, header: Header, made: Sequence[int]) -> bool:
    """Turn the records into the manifest once all are there; another process may have done so."""
    if (folder / MANIFEST).is_file():
        differing = _to_be_made(folder, made)
        if differing:
            raise DataError(
                f"{folder / shard_name(differing[0])}, made again, is not what the manifest says: the set comes from "
                "another kind of machine; make it anew in another folder"
            )
    else:
        try:
            records = [_record(folder, index) for index in range(header.n_shards)]
        except DataError:
            return (folder / MANIFEST).is_file()
        Manifest(header, tuple(records)).write(folder)
    for path in (folder / UNFINISHED, *(_record_path(folder, index) for index in range(header.n_shards))):
        remove(path)
    remove_abandoned(folder)
    return True


def _check_space(folder: Path, header: Header, shards: int) -> None:
    """Refuse to begin what the disk cannot hold."""
    need = shards * (header.per_shard * header.bytes_per_pair + 2**16)
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(nearest).free
    if need > free:
        raise ResourceError(
            f"{folder} needs {need / 2**30:.2f} GiB of disk, and {free / 2**30:.2f} are free; make room or draw less"
        )
