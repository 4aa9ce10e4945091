"""The public front as calls that work, and bad values for each of their arguments.

`calls(count, seed)` gives each bad value for each argument first, one at a time, then several at once at random. A
call may work or end in one of the library's errors; `attempt` says which, and where any other error comes from.
"""

import copy
import io
import random
import resource
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

import operformer
from operformer import Grid, Samples, Training
from operformer.errors import OperformerError, OperformerWarning

SECONDS = 20
MEMORY = 6 * 2**30  # bytes more than there are when the calls begin
ROOT = str(Path(operformer.__file__).parent)

NOTHING = object()
JUNK = {
    "None": None, "True": True, "0": 0, "1": 1, "-1": -1, "2": 2, "3.5": 3.5, "1e400": 10**400, "10^18": 10**18,
    "10^9": 10**9, "-10^30": -(10**30), "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "1e308": 1e308,
    "1j": 1j, "''": "", "'a'": "a", "nul": "a\0b", "long": "x" * 5000, "b''": b"a", "()": (), "[]": [], "{}": {},
    "[1]": [1],
    "(0, 2)": (0, 2), "(2, 3, 5)": (2, 3, 5), "(1, 2, 3, 4)": (1, 2, 3, 4), "[None]": [None], "['a']": ["a"],
    "[[1, 2], [3]]": [[1, 2], [3]], "nested": [[[[1.0]]]], "[nan]": [float("nan")], "{'a': 1}": {"a": 1},
    "object": object(), "type": int, "lambda": lambda *_: None, "device": torch.device("cpu"), "float32": torch.float32,
    "scalar": torch.tensor(1.0), "row": torch.arange(3.0), "no rows": torch.zeros(0, 2), "array": np.ones((2, 2)),
    "texts": np.array(["a", "b"]), "objects": np.array([None, {}], dtype=object), "int64": np.int64(3),
    "slice": slice(None), "range": range(3), "set": {1, 2}, "complex": torch.ones(3, dtype=torch.complex64),
    "module": torch.nn.Linear(2, 2), "path": Path("/nowhere/at/all"), "ellipsis": ...,
}  # fmt: skip


def of_tensor(t):
    """Tensors that are nearly the right one."""
    nan, infinite = t.clone(), t.clone()
    if t.numel() and t.is_floating_point():
        nan.view(-1)[0], infinite.view(-1)[-1] = torch.nan, torch.inf
    return {
        "as float64": t.double(), "as float32": t.float(), "as float16": t.half(), "as int": t.long(),
        "as bool": t.bool(), "as complex": t.to(torch.complex64), "with NaN": nan, "with inf": infinite,
        "requires grad": t.clone().float().requires_grad_(), "grad, double": t.clone().double().requires_grad_(),
        "flat": t.reshape(-1), "one axis more": t[None], "one axis less": t[0] if t.ndim and len(t) else t,
        "empty": t[:0] if t.ndim else t, "no channels": t[:, :0] if t.ndim > 1 else t, "last gone": t[..., :-1]
        if t.ndim else t, "turned": t.T if t.ndim == 2 else t.transpose(0, -1) if t.ndim else t, "huge": t * 1e300,
        "negative": -t, "zero": t * 0, "as array": t.numpy(), "as list": t.tolist(), "on meta": t.to("meta"),
        "strided": torch.stack([t, t], -1)[..., 0], "expanded": t[:1].expand(5, *t.shape[1:]) if t.ndim else t,
        "bfloat16": t.bfloat16(), "sparse": t.to_sparse(), "wide": torch.cat([t, t], -1) if t.ndim else t,
        "array of objects": t.numpy().astype(object), "list of tensors": list(t) if t.ndim else [t],
    }  # fmt: skip


@cache
def grids():
    g = torch.Generator().manual_seed(0)
    return {
        "line": Grid.uniform(9), "other box": Grid.uniform(9, [(2, 5)]), "cells": Grid.uniform((8, 8), kind="cells"),
        "periodic": Grid.uniform(8, kind="periodic"), "box": Grid.uniform((3, 4, 5)), "two": Grid.uniform(2),
        "uneven": Grid.rectilinear([0, 0.1, 0.5, 1.0]), "points": Grid.scattered(torch.rand(9, 1, generator=g)),
        "plane": Grid.scattered(torch.rand(9, 2, generator=g)),
        "ragged": Grid.ragged([torch.rand(n, 1, generator=g) for n in (9, 5, 2)]),
        "on meta": SimpleNamespace(points=None, weights=None),
    }  # fmt: skip


def bad_values(good):
    """What to put in place of a value, by name."""
    found = dict(JUNK)
    if callable(good):  # what is wrong inside somebody's own function is told there
        found = {name: value for name, value in found.items() if name not in ("type", "module")}
    if isinstance(good, torch.Tensor):
        found |= of_tensor(good)
    if isinstance(good, Grid) or good is None:
        found |= grids()
    if isinstance(good, Samples):
        found |= bad_samples(good)
    if isinstance(good, operformer.Operator):
        found |= bad_operators()
    if isinstance(good, list | tuple) and good:
        found |= {"longer": [*good, good[0]], "shorter": good[:-1], "one is None": [*good[:-1], None]}
        found |= {"one is text": [*good[:-1], "a"], "nested": [good], "one is nan": [*good[:-1], float("nan")]}
    return found


class Later:
    """A value that is made inside the call, since making it may be refused, too."""

    def __init__(self, make):
        self.make = make


def bad_samples(good):
    u, z, grid = good.u, good.z, good.grid
    made = {
        "no samples": lambda: good[:0], "one": lambda: good[:1], "u alone": lambda: u, "pair": lambda: (u, z),
        "double": lambda: good.to(dtype=torch.float64), "half": lambda: good.to(dtype=torch.float16),
        "NaN in u": lambda: Samples(u * torch.nan, z, grid), "inf in z": lambda: Samples(u, z / 0, grid),
        "zero z": lambda: Samples(u, z * 0, grid), "huge": lambda: Samples(u * 1e38, z * 1e38, grid),
        "tiny": lambda: Samples(u * 1e-44, z * 1e-44, grid), "constant": lambda: Samples(u * 0 + 1, z, grid),
        "channels": lambda: Samples(u.repeat(1, 2, 1), z.repeat(1, 3, 1), grid),
        "grad": lambda: Samples(u.clone().requires_grad_(), z.clone().requires_grad_(), grid),
        "list": lambda: [good], "two levels": lambda: [good, good], "none": list,
        "no channels": lambda: Samples(u[:, :0], z[:, :0], grid),
        "integers": lambda: Samples((100 * u).long(), (100 * z).long(), grid),
        "complex": lambda: Samples(u.to(torch.complex64), z.to(torch.complex64), grid),
        "mixed": lambda: Samples(u.double(), z, grid), "on meta": lambda: Samples(u.to("meta"), z.to("meta"), grid),
    }  # fmt: skip
    for name, other in grids().items():
        if name != "on meta":
            shape = (3, 1, *other.shape)
            made[f"on {name}"] = lambda shape=shape, other=other: Samples(torch.rand(shape), torch.rand(shape), other)
    return {name: Later(make) for name, make in made.items()}


@cache
def operators():
    one = {"in_channels": 1, "out_channels": 1, "hidden_channels": 4, "n_layers": 1}
    made = {
        "tno": operformer.TNO(1, n_heads=2, **one), "plane": operformer.TNO(2, n_heads=2, **one),
        "fano": operformer.FANO((2,), 2, n_heads=2, **one), "vitno": operformer.ViTNO((2,), 2, n_heads=2, **one),
        "spectral": operformer.SpectralOperator((3,), **one), "universal": operformer.UniversalTNO(1, **one),
        "double": operformer.TNO(1, n_heads=2, **one).double(),
    }  # fmt: skip
    made["resampled"] = operformer.Resampled(operformer.ViTNO((3,), 2, n_heads=2, **one))
    made["increment"] = operformer.Increment(operformer.TNO(1, n_heads=2, **one))
    return made


@cache
def bad_operators():
    made = dict(operators())
    for name, value in (("NaN", torch.nan), ("zero", 0.0), ("huge", 1e30)):
        one = operformer.TNO(1, 1, 1, 4, n_layers=1, n_heads=2)
        with torch.no_grad():
            for parameter in one.parameters():
                parameter.fill_(value)
        made[f"weights {name}"] = one
        other = operformer.TNO(1, 1, 1, 4, n_layers=1, n_heads=2)
        other.input_scale.fill_(value)
        made[f"scale {name}"] = other
    made["on meta"] = operformer.TNO(1, 1, 1, 4, n_layers=1, n_heads=2).to("meta")
    made["half"] = operformer.TNO(1, 1, 1, 4, n_layers=1, n_heads=2).half()
    made["class"] = operformer.TNO
    return made


def targets(folder):
    """What is called, and arguments with which it works."""
    g = torch.Generator().manual_seed(1)
    line = grids()["line"]
    u = torch.rand(4, 1, 9, generator=g)
    samples = Samples(u, u.cumsum(-1) / 9, line)
    points, axis = torch.rand(7, 2, generator=g).double(), torch.tensor([0.0, 0.25, 1.0], dtype=torch.float64)
    one = {"in_channels": 1, "out_channels": 1, "hidden_channels": 4, "n_layers": 1}
    operator = operators()["tno"]
    ragged = grids()["ragged"]
    q, k, v = torch.rand(3, 5, 4, generator=g)
    cheap = Training(epochs=1, batch_size=2, device="cpu")
    calibration = operformer.calibrate(operator, samples, 0.5, 0.05, "constant")
    operformer.write(samples, folder / "a.npz")
    operator.save_pretrained(folder / "saved")
    found = {
        "Grid.uniform": (Grid.uniform, {"shape": (3, 5), "bounds": [(0, 1), (0, 2)], "kind": "cells"}),
        "Grid.rectilinear": (lambda first, second, bounds: Grid.rectilinear(first, second, bounds=bounds),
                             {"first": axis, "second": [0.0, 0.5, 1.0], "bounds": [(0, 1), (0, 2)]}),
        "Grid.scattered": (Grid.scattered, {"points": points, "weights": points[:, 0] + 1, "bounds": [(0, 1), (0, 1)]}),
        "Grid.ragged": (Grid.ragged, {"points": [points, points[:3]], "weights": [points[:, 0], points[:3, 0]],
                                      "bounds": [(0, 1), (0, 1)]}),
        "Grid.to": (line.to, {"device": "cpu"}),
        "Grid.of_samples": (lambda index: ragged.of_samples(index), {"index": torch.tensor([0, 2])}),
        "Grid.of_sample": (lambda k: ragged.of_sample(k), {"k": 1}),
        "voronoi_weights": (operformer.voronoi_weights, {"points": points, "bounds": [(0, 1), (0, 1)]}),
        "Samples": (Samples, {"u": u, "z": u, "grid": line, "checks": {"residual": torch.ones(4)}}),
        "Samples[]": (lambda index: samples[index], {"index": torch.tensor([0, 2])}),
        "Samples.to": (lambda device, dtype: samples.to(device, dtype), {"device": "cpu", "dtype": torch.float64}),
        "Samples.blocks": (lambda count: list(samples.blocks(count)), {"count": 2}),
        "pad": (operformer.pad, {"values": [torch.rand(2, n) for n in (9, 5, 2)], "grid": ragged}),
        "unpad": (operformer.unpad, {"values": torch.rand(3, 2, 9), "grid": ragged}),
        "attention": (operformer.attention, {"query": q, "key": k, "value": v, "weights": torch.rand(5), "scale": 0.5}),
        "backend": (operformer.backend, {"operator": operator, "grid": line}),
        "set_precision": (lambda operator, averages: operformer.set_precision(operator, averages),
                          {"operator": operator, "averages": torch.float16}),
        "TNO": (operformer.TNO, {"dim": 1, "n_heads": 2, "initial_channels": 0, "sources": None, "waves": 1, **one}),
        "UniversalTNO": (operformer.UniversalTNO, {"dim": 1, **one}),
        "Transformer": (operformer.Transformer, {"dim": 2, "n_heads": 2, **one}),
        "FANO": (operformer.FANO, {"n_patches": (2, 2), "n_modes": (2, 3), "n_heads": 2, "basis": "cosine", "last": 2,
                                   "waves": 0, "overlap": 0.25, **one}),
        "ViTNO": (operformer.ViTNO, {"n_patches": (2, 2), "n_modes": 2, "n_heads": 2, "basis": "fourier",
                                     "last": "dirichlet", "waves": 0, **one}),
        "SpectralOperator": (operformer.SpectralOperator, {"n_modes": (3, 3), "basis": "isotropic-cosine", "last": None,
                                                           "waves": 0, **one}),
        "Increment": (operformer.Increment, {"operator": operator}),
        "Resampled": (operformer.Resampled, {"operator": operator}),
        "Functional": (operformer.Functional, {"operator": operator}),
        "Isotropic": (operformer.Isotropic, {"basis": operformer.Cosine()}),
        "Smoothing": (operformer.Smoothing, {"boundary": "dirichlet", "epsilon": 1e-3, "alpha": 1.0}),
        "SpectralResidual": (operformer.SpectralResidual, {"n_modes": 4}),
        "Overlap": (operformer.Overlap, {"margin": 0.25, "continuation": "even"}),
        "Training": (Training, {"epochs": 1, "batch_size": 2, "learning_rate": 1e-3, "schedule": "cosine", "loss": "l2",
                                "optimizer": "muon", "accumulation": 1, "ema": 0.5, "clip_norm": 1.0, "seed": 1,
                                "averages": "full", "compile": False, "stages": (0.5, 0.5), "save_minutes": 1.0}),
        "train": (train, {"operator": operator, "samples": samples, "validation": samples, "settings": cheap,
                          "title": "a", "symmetries": ()}),
        "train's folder": (lambda folder: train(operator, samples, samples, cheap, folder), {"folder": NOTHING}),
        "evaluate": (operformer.evaluate, {"operator": operator, "samples": samples, "label": "a", "is_periodic": False,
                                           "n_patches": (2,)}),
        "predict": (operformer.predict, {"operator": operator, "u": u, "grid": line, "resolution": 7}),
        "predict at": (operformer.predict, {"operator": operator, "u": u, "grid": line, "query": Grid.uniform(5)}),
        "predict ragged": (operformer.predict, {"operator": operator, "u": [torch.rand(1, n) for n in (9, 5, 2)],
                                                "grid": ragged}),
        "calibrate": (operformer.calibrate, {"operator": operator, "samples": samples, "alpha": 0.5, "delta": 0.05,
                                             "spread": "constant"}),
        "Calibration.band": (calibration.band, {"prediction": u, "grid": line}),
        "certify": (certify, {"operator": operator, "probes": probe, "resolution": (8,), "bounds": [(0, 1)],
                              "kind": "nodes", "doublings": 2, "interpolates": False, "seed": 0}),
        "load": (operformer.load, {"folder": folder / "saved"}),
        "save_pretrained": (lambda folder: operator.save_pretrained(folder), {"folder": NOTHING}),
        "read": (operformer.read, {"path": folder / "a.npz", "u": "u", "z": "z", "layout": "b c x", "steps": None,
                                   "lead": None, "grid": None, "bounds": None, "weights": "voronoi", "first": 0,
                                   "count": 2}),
        "read_inputs": (operformer.read_inputs, {"path": folder / "a.npz", "operator": operator, "u": "u",
                                                 "layout": "b c x", "grid": None, "bounds": None, "kind": None,
                                                 "weights": "equal"}),
        "write": (operformer.write, {"samples": samples, "path": folder / "b.npz"}),
        "open_pairs": (operformer.open_pairs, {"folder": folder}),
        "export": (export, {"operator": operator, "path": folder / "a.txt", "kind": "nodes"}),
        "from_pretrained": (operformer.from_pretrained, {"name": folder / "saved", "revision": None}),
        "push_to_hub": (operformer.push_to_hub, {"operator": operator, "name": "nobody", "private": True}),
    }  # fmt: skip
    for name, one_operator in operators().items():
        if name not in ("plane", "double"):
            found[f"forward of {name}"] = (one_operator, {"u": u, "grid": line, "query": None})
    for name, kind, arguments in (
        ("Lorenz63", operformer.problems.Lorenz63, {"recover": ("y",), "initial": False, "horizon": 1.0}),
        ("ControlledODE", operformer.problems.ControlledODE, {"horizon": 1.0}),
        ("Darcy", operformer.problems.Darcy, {"coefficient": "lognormal", "scale": 1.0, "tau": 3.0, "alpha": 2.0,
                                              "n_modes": 4, "points": "nodes", "fine": 9, "read_from": 0}),
        ("Kolmogorov", operformer.problems.Kolmogorov, {}),
    ):  # fmt: skip
        found[name] = (kind, arguments)
        if name != "Kolmogorov":
            law = kind(**arguments)
            found[f"{name}.sample"] = (law.sample, {"count": 1, "resolution": 8, "seed": 0, "device": "cpu",
                                                    "first": 0, "dtype": torch.float32})  # fmt: skip
    return found


def probe(grid):
    """One function for `certify`."""
    return grid.points.movedim(-1, 0)[None].sin()


def train(operator, samples, validation, settings, folder=NOTHING, **rest):
    """The library's, into a folder that is thrown away."""
    operator = copy.deepcopy(operator)  # what is trained would not be the same at the next call
    with tempfile.TemporaryDirectory() as made:
        return operformer.train(operator, samples, validation, settings, made if folder is NOTHING else folder, **rest)


def certify(resolution, doublings, **rest):
    """The library's, unless it would only take long."""
    if isinstance(doublings, int) and 4 < doublings < 10**6:
        return None
    return operformer.certify(resolution=resolution, doublings=doublings, **rest)


def export(operator, path, kind):
    """The library's, up to where the graph is made: the path says no format."""
    return operformer.export(operator, path, kind)


def calls(count, seed, folder):
    """So many calls: target, what is replaced by which name of value, the call itself."""
    draws = random.Random(seed)
    known = targets(folder)
    single = [
        (name, {argument: value})
        for name, (_, good) in known.items()
        for argument in good
        for value in bad_values(None if good[argument] is NOTHING else good[argument])
    ]
    draws.shuffle(single)
    while len(single) < count:
        name = draws.choice(list(known))
        good = known[name][1]
        if len(good) > 1:
            chosen = draws.sample(list(good), draws.randint(2, min(3, len(good))))
            single.append((name, {a: draws.choice(list(bad_values(good[a]))) for a in chosen}))
    return known, single[:count]


@contextmanager
def limited():
    """Little more memory than is in use, and an alarm where a call hangs."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)


class HangError(BaseException):
    """A call that takes too long."""


def late(*_):
    raise HangError


def attempt(known, call):
    """ "worked", "refused", or where another error comes from."""
    name, chosen = call
    function, good = known[name]
    signal.alarm(SECONDS)
    try:
        arguments = {key: value for key, value in good.items() if value is not NOTHING}
        for argument, value in chosen.items():
            bad = bad_values(None if good[argument] is NOTHING else good[argument])[value]
            arguments[argument] = bad.make() if isinstance(bad, Later) else bad
        function(**arguments)
    except OperformerError as error:
        return "refused" if str(error) and "\n" not in str(error) else f"no line: {error}"
    except (Exception, HangError) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(ROOT)]
        place = f"{frames[-1].filename.removeprefix(ROOT)}:{frames[-1].lineno}" if frames else "outside"
        return f"{place}  {type(error).__name__}: {str(error)[:100]!r}"
    return "worked"


def campaign(count, seed, folder):
    """What became of so many calls: how many worked and were refused, and every other one with its place."""
    known, chosen = calls(count, seed, folder)
    found, broken = Counter(), []
    with limited(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", OperformerWarning)  # what the library means to say
        for call in chosen:
            try:
                outcome = attempt(known, call)
            except HangError:  # the alarm waited for code that is no Python
                outcome = f"outside  hangs in {call[0]}"
            finally:
                signal.alarm(0)
            if outcome in ("worked", "refused"):
                found[outcome] += 1
            else:
                broken.append((outcome, call))
    return found, broken
