"""Commands about data: generate, import, inspect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from operformer.commands.console import console
from operformer.errors import UsageError
from operformer.values import parse_value

if TYPE_CHECKING:
    from operformer.domain import Pairs
    from operformer.domain.grid import UniformKind
    from operformer.problems import Problem

Constant = Annotated[str, Parameter(help="Changed constants of the law, such as tau=3 n_modes=256.")]

Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")]
Kinds = Annotated[
    tuple[Literal["nodes", "cells", "periodic", "left"], ...], Parameter(consume_multiple=True, negative="")
]
Numbers = Annotated[tuple[float, ...], Parameter(consume_multiple=True, negative="")]


def generate(
    problem: str,
    *constants: Constant,
    samples: int,
    resolution: int,
    out: Path,
    seed: int = 0,
    first: int = 0,
    workers: int | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    dtype: Literal["float32", "float64"] = "float32",
    per_shard: int | None = None,
    part: int | None = None,
    parts: int | None = None,
) -> None:
    """Draw pairs of a problem into a folder; the same command again resumes, or repairs damaged files.

    Files are the same bytes for every number of workers, and when several machines share the work: torchrun's and a
    SLURM array's variables are understood, or give --part and --parts.

    Parameters
    ----------
    problem
        lorenz-y, lorenz-yz, controlled-ode, darcy-lognormal, darcy-piecewise, darcy-li or kolmogorov.
    samples
        How many pairs.
    resolution
        Points along each axis; time steps for problems in time.
    out
        The folder of the set.
    seed
        The same seed is the same draw at every resolution.
    first
        The first pair of the draw; test pairs begin where training pairs end.
    workers
        Processes on the CPU; as many as cores if not given.
    device
        Where to compute.
    dtype
        How values are stored; they are computed in float64.
    per_shard
        Pairs in a file; as many as fit into 64 MiB, at most 256, if not given.
    part
        Which part of the files this process makes, from 0.
    parts
        How many parts there are.
    """
    from operformer.data.generation import Draw, Share, make_header
    from operformer.data.generation import generate as make
    from operformer.data.workers import GenerationDisplay
    from operformer.problems import LAWS
    from operformer.settings import choose

    chosen = _changed(choose(LAWS, problem, "the problem"), constants)
    draw = Draw(samples, resolution, seed, first, dtype, per_shard)
    share = Share(*_part(part, parts), _cores() if workers is None else workers, device)
    header = make_header(chosen, draw)
    mine = range(share.part, header.n_shards, share.parts)
    with GenerationDisplay(problem, header.pairs_in(mine), console) as display:
        is_whole = make(chosen, draw, out, share, display)
    if is_whole:
        console.print(f"generated: {out}; next: operformer inspect {out}", soft_wrap=True)
    else:
        console.print(f"part {share.part} of {share.parts} is done; the set is whole when all are", soft_wrap=True)


def import_(
    path: Path,
    *,
    out: Path,
    u: Names = (),
    z: Names = (),
    layout: Names = (),
    grid: Kinds = (),
    bounds: Numbers = (),
    axes: Names = (),
    query: Names = (),
    parameters: Names = (),
    functionals: Names = (),
    coarser: Path | None = None,
    steps: Annotated[tuple[int, int] | None, Parameter(negative="")] = None,
    lead: int | None = None,
    weights: Literal["voronoi", "equal"] = "voronoi",
    skip: Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")] = (),
) -> None:
    """Keep pairs of your own as a set: .npz, .npy, HDF5, NetCDF, MATLAB, PDEBench, The Well, torch.save's .pt.

    What the file says and what its values show is used and reported. What remains open is asked for.

    Parameters
    ----------
    path
        The file, or a folder of The Well's files.
    out
        The folder of the set.
    u
        The names of the input's arrays; more than one become channels.
    z
        The names of the output's arrays; for .npy, the file of the outputs.
    layout
        What the axes are, such as "b x y c": b samples, t time, c channels, x y z space, n scattered points. Two if
        those of u and z differ.
    grid
        Where the values are known, for all axes or for each: nodes (both ends), cells (midpoints), periodic (one period
        without its upper end) or left (i/n, without the upper end).
    bounds
        Lower and upper end of each axis, such as --bounds 0 1 0 2.
    axes
        The names of the arrays that hold the coordinates along each axis.
    query
        Where z is known, if not where u is: the names of its coordinates along each axis, or of one array of points.
    parameters
        The names of arrays with numbers for each sample, such as a viscosity: more channels of u, constant in space.
    functionals
        The names of arrays with numbers for each sample, such as a drag, that are outputs.
    coarser
        A file with the same samples at fewer points: which of the points it has tells where they are.
    steps
        Which time steps are u and z.
    lead
        Pair every time step with the one so much later.
    weights
        Of scattered points whose file has no array weights: the volumes of their Voronoi cells, or all equal.
    skip
        Samples to leave out, counted from 0, such as --skip 7 12.
    """
    from operformer.data.importing import import_pairs
    from operformer.data.summary import summarise

    inputs, outputs = _arrays(u, z)
    given = box_of(bounds)
    options: dict[str, Any] = {
        "layout": _layouts(layout),
        "steps": steps,
        "lead": lead,
        "bounds": given,
        "weights": weights,
        "skip": skip,
    }
    options |= {"grid": _single(grid), "axes": list(axes) or None, "coarser": coarser}
    options |= {"query": list(query) or None, "parameters": parameters, "functionals": functionals}
    stored = import_pairs(path, out, inputs, outputs, **options)
    for line in summarise(stored).lines():
        console.print(line, soft_wrap=True)
    console.print(f"points: {_points(stored.manifest.header.origin)}", soft_wrap=True, highlight=False)
    console.print(f"imported: {out}; next: operformer inspect {out}", soft_wrap=True)


def inspect(
    path: Path,
    *,
    u: Names = (),
    z: Names = (),
    layout: Names = (),
    grid: Kinds = (),
    figure: Path | None = None,
) -> None:
    """What a set is: its law, shapes, ranges and checksums, and a picture of its first pairs.

    Parameters
    ----------
    path
        The folder of a set, or a file that could be imported.
    u
        The names of a file's arrays for the input, as for import.
    z
        The names of a file's arrays for the output.
    layout
        What the axes of a file are.
    grid
        Where the values of a file are known.
    figure
        Where to draw the first pairs; thumbnail.png in the set's folder if not given, nothing for a file.
    """
    from operformer.data.exchange import read
    from operformer.data.manifest import MANIFEST
    from operformer.data.store import open_pairs
    from operformer.data.summary import summarise
    from operformer.runs.report.encoding import write_thumbnails

    if (path / MANIFEST).is_file():
        stored = open_pairs(path)
        stored.verify()
        for line in _origin(stored.manifest.header.origin):
            console.print(line, soft_wrap=True)
        shards, size = stored.manifest.shards, sum(shard.bytes for shard in stored.manifest.shards)
        files = "1 file" if len(shards) == 1 else f"{len(shards)} files"
        console.print(f"{files} of {size / 2**20:.1f} MiB in all, every checksum is right")
        for check in shards[0].checks:
            console.print(f"worst {check} {max(shard.checks[check] for shard in shards):.1e}")
        pairs: Pairs = stored
        fields = stored.manifest.header.fields
        names = (*fields.inputs, *fields.outputs)
        if figure is None and os.access(path, os.W_OK):
            figure = path / "thumbnail.png"
    else:
        refuse_unfinished(path)
        pairs, names = read(path, *_arrays(u, z), layout=_layouts(layout), grid=_single(grid)), ()
    for line in summarise(pairs).lines():
        console.print(line, soft_wrap=True)
    if figure is not None:
        write_thumbnails(next(iter(pairs.blocks(4))), figure, names)
        console.print(f"figure: {figure}", soft_wrap=True)


def box_of(bounds: tuple[float, ...]) -> list[tuple[float, float]] | None:
    """One (lower, upper) for each axis from a row of numbers; None if there are none."""
    if len(bounds) % 2:
        raise UsageError(f"bounds are pairs of numbers, a lower and an upper end for each axis: got {len(bounds)}")
    return list(zip(bounds[::2], bounds[1::2], strict=True)) or None


def _layouts(given: tuple[str, ...]) -> str | tuple[str, str] | None:
    """The layout of u and z, or one for each."""
    if len(given) > 2 or any(len(one) == 1 for one in given):
        raise UsageError(f'a layout stands between quotes, such as --layout "b x y", one or two of them: got {given}')
    return None if not given else given[0] if len(given) == 1 else (given[0], given[1])


def _single(kinds: tuple[UniformKind, ...]) -> UniformKind | tuple[UniformKind, ...] | None:
    """One kind of grid for all axes, one for each, or none."""
    return kinds[0] if len(kinds) == 1 else kinds or None


def _points(origin: Mapping[str, Any]) -> str:
    """How it was found where the points of an imported set are; the file may be somebody else's."""
    from operformer.text import shown

    return shown(str(origin.get("points")), 600, quoted=False)


def _arrays(u: tuple[str, ...], z: tuple[str, ...]) -> tuple[list[str] | None, str | list[str] | None]:
    """The arrays named on the command line; one name for z may be a file."""
    return list(u) or None, (z[0] if len(z) == 1 else list(z)) or None


def _changed(law: Problem, constants: tuple[str, ...]) -> Problem:
    """The law with some of its constants changed."""
    from operformer.problems import describe, problem_of

    values: dict[str, Any] = describe(law)
    for constant in constants:
        name, equals, text = constant.partition("=")
        if not (equals and text) or name == "name":
            raise UsageError(f"a changed constant is name=value, such as tau=3: got {constant!r}")
        values[name] = parse_value(text, name)
    return problem_of(values)


def _part(part: int | None, parts: int | None) -> tuple[int, int]:
    """Which share is this process's: as given, or as torchrun or a SLURM array says."""
    if (part is None) != (parts is None):
        raise UsageError("--part and --parts go together; give both or neither")
    if part is not None and parts is not None:
        return part, parts
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return _number("RANK"), _number("WORLD_SIZE")
    if "SLURM_ARRAY_TASK_ID" in os.environ and "SLURM_ARRAY_TASK_COUNT" in os.environ:
        task, count = _number("SLURM_ARRAY_TASK_ID"), _number("SLURM_ARRAY_TASK_COUNT")
        number, between = divmod(task - _number("SLURM_ARRAY_TASK_MIN", 0), _number("SLURM_ARRAY_TASK_STEP", 1) or 1)
        if between or not 0 <= number < count:
            raise UsageError(f"task {task} is not one of {count} evenly spaced ones; give --part and --parts")
        return number, count
    return 0, 1


def _number(variable: str, default: int | None = None) -> int:
    """A whole number from the environment."""
    text = os.environ.get(variable, "" if default is None else str(default))
    if not text.strip().isdecimal():
        raise UsageError(f"{variable} must be a whole number: got {text!r}; give --part and --parts")
    return int(text)


def _cores() -> int:
    """The cores that this process may use; torchrun's processes of one machine share them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // max(1, _number("LOCAL_WORLD_SIZE", 1)))


def _origin(origin: Mapping[str, Any]) -> list[str]:
    """Where a set comes from, in words; the file may be somebody else's, so nothing of it is printed as it is."""
    from operformer.text import shown

    law = origin.get("problem")
    if not isinstance(law, dict):
        options = _listed(origin.get("options"))
        file = shown(str(origin.get("file")), quoted=False)
        points = [f"points: {_points(origin)}"] if "points" in origin else []
        return [f"imported from {file}{f' with {options}' if options else ''}", *points]
    constants = _listed({name: value for name, value in law.items() if name != "name"})
    return [
        f"{shown(str(law.get('name')), quoted=False)}({constants})",
        "resolution {}, seed {}, from pair {} on".format(
            *(shown(str(origin.get(name)), quoted=False) for name in ("resolution", "seed", "first"))
        ),
    ]


def _listed(values: Any) -> str:
    from operformer.text import shown

    items = values.items() if isinstance(values, dict) else ()
    return ", ".join(shown(f"{name}={value!r}", quoted=False) for name, value in items)


def refuse_unfinished(path: Path) -> None:
    """Refuse a set that is still to be made."""
    from operformer.data.generation import UNFINISHED, shards_made

    if (path / UNFINISHED).is_file():
        made, total = shards_made(path)
        raise UsageError(f"{path} is unfinished: {made} of {total} files are made; run the command that makes it again")
