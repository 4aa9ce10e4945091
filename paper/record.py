"""results.json: everything that tables, figures and the page of a reproduction are made of, as plain values."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from operformer.errors import DataError
from operformer.evaluation.errors import Evaluation, Look, Summary, summarise
from operformer.evaluation.face_jumps import FaceJumps
from operformer.evaluation.rollout import Rollout
from operformer.evaluation.spectra import ErrorSpectrum
from operformer.files import read_json, write_bytes
from operformer.problems import Problem, problem_of
from operformer.runs import Run
from operformer.runs.experiment import KINDS, Experiment
from operformer.runs.records import jumps_of, look_of, rollout_of, rollout_values, spectrum_of
from operformer.runs.report.tables import spoken_operator
from paper.catalogue import PATCHES
from paper.cost import Cost
from paper.counting import count_operations
from paper.runs import Failure
from paper.samples import DIGITS, Views, pack_views, rounded, unpack_views

VERSION = 1
_BASES = {  # other than the paper's Fourier modes
    "cosine": "cosines", "legendre": "Legendre polynomials", "extended-fourier": "periodic extension",
}  # fmt: skip
_ERRORS, _SUMMARIES = ("errors", "h1_errors", "standardised_errors"), ("h1_summary", "standardised_summary")
_PROBLEMS = {"ControlledODE": "controlled ODE", "Kolmogorov": "Kolmogorov flow"}


@dataclass(frozen=True)
class Measured:
    """The errors on the test samples of one grid: an `Evaluation` without its pictures."""

    label: str
    points: int
    errors: tuple[float, ...]
    h1_errors: tuple[float, ...] = ()
    spectrum: ErrorSpectrum | None = None
    jumps: FaceJumps | None = None
    h1_summary: Summary | None = None  # in place of the errors of single samples, where those are not kept
    standardised_errors: tuple[float, ...] = ()  # of outputs in units of the training samples' mean and deviation
    standardised_summary: Summary | None = None

    @property
    def l2(self) -> Summary:
        """Median, mean and worst relative L2 error."""
        return summarise(self.errors)

    @property
    def h1(self) -> Summary | None:
        """The same in H1, where points have neighbours."""
        return summarise(self.h1_errors) if self.h1_errors else self.h1_summary

    @property
    def standardised(self) -> Summary | None:
        """The same in L2 of standardised outputs, as the paper's code measures it; None where it was not measured."""
        return summarise(self.standardised_errors) if self.standardised_errors else self.standardised_summary


@dataclass(frozen=True)
class Record:
    """What is kept of one run. ``operations`` are those of one evaluation on the training grid."""

    settings: Mapping[str, Any]
    parameters: int
    operations: int
    seconds: float
    measured: tuple[Measured, ...]
    looks: Mapping[str, tuple[Look, Look]] = field(default_factory=dict)  # median and worst sample, by grid
    rollout: Rollout | None = None
    made: Mapping[str, Any] = field(default_factory=dict)  # versions, commit and device when it was trained
    clock: Mapping[str, float] = field(default_factory=dict)  # seconds besides: drawing samples, evaluating
    weights: str = ""  # the hash of those that it was evaluated with
    recipe: str = ""  # of a run at the paper's size, see recipes.py
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # from the authors' run: there, here
    outputs: Mapping[str, Any] = field(default_factory=dict)  # mean and deviation of the training samples' outputs
    curve: tuple[float, ...] = ()  # the validation error of every epoch
    fresh: Measured | None = None  # errors on samples of another seed, which no one has chosen anything by

    @property
    def operator(self) -> str:
        """What a reader calls the operator."""
        return operator_name(self.settings)

    @property
    def problem(self) -> Problem:
        """The problem itself."""
        return problem_of(self.settings["problem"], KINDS)

    @property
    def resolution(self) -> int:
        """That of the training."""
        return int(self.settings["data"]["resolution"])

    def on(self, label: str) -> Measured | None:
        """What was measured on a grid, if it was."""
        return next((there for there in self.measured if there.label == label), None)

    @property
    def trained(self) -> Measured:
        """What was measured on the training grid."""
        found = self.on("1x")
        if found is None:
            raise DataError(f"the run {self.settings['name']} was not evaluated on its training grid")
        return found

    @property
    def uniform(self) -> list[tuple[int, Measured]]:
        """The uniform grids by their resolution."""
        return [
            (round(float(there.label[:-1]) * self.resolution), there)
            for there in self.measured
            if there.label.endswith("x")
        ]


@dataclass(frozen=True)
class Results:
    """A reproduction: studies, recipe, where it was gathered and costs counted, runs; settings of runs that failed."""

    studies: tuple[str, ...]
    recipe: str
    made: Mapping[str, Any]
    costs: Mapping[str, Cost]
    runs: Mapping[str, Record]
    absent: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    views: Mapping[str, Views] = field(default_factory=dict)  # samples by run and grid, for the page's explorer

    def settings(self, name: str) -> Mapping[str, Any]:
        """Those of a run that was asked for."""
        return self.runs[name].settings if name in self.runs else self.absent[name]


def operator_name(settings: Mapping[str, Any], with_patches: bool = True) -> str:
    """What a reader calls the operator of an experiment; without its patches, as figures have a colour for it."""
    operator = settings["operator"]
    name = spoken_operator(operator["name"])
    if operator["name"] == "SpectralOperator":
        return name
    if "-layers-" in settings["name"]:
        name += f", {operator['n_layers']} layers"
    if settings["problem"].get("initial") and not operator.get("initial_channels"):
        name += ", constant channels"
    patches = list(operator.get("n_patches", ()))
    if with_patches and patches and patches not in PATCHES.values():
        name += f", {' × '.join(map(str, patches))} patches"
    if operator.get("overlap"):
        name += ", overlapping patches"
    if operator.get("basis") in _BASES:
        name += f", {_BASES[operator['basis']]}"
    return f"{name}, smoothing" if any(isinstance(layer, str) for layer in operator.get("last") or ()) else name


def problem_name(settings: Mapping[str, Any]) -> str:
    """What a reader calls the problem of an experiment."""
    problem = settings["problem"]
    if problem["name"] == "Darcy":
        return f"Darcy flow, {problem['coefficient']}"
    if problem["name"] == "Lorenz63":
        return f"Lorenz 63, x to {' and '.join(problem['recover'])}"
    return _PROBLEMS.get(problem["name"], problem["name"])


def record_of(run: Run, pictured: Container[str]) -> Record:
    """What is kept of a run, with pictures on the grids of these labels."""
    experiment = run.experiment
    with torch.device("meta"):
        parameters = experiment.make_operator().n_parameters
    return Record(
        settings=experiment.to_mapping(),
        parameters=parameters,
        operations=operations_of(experiment),
        seconds=round(run.seconds, 3),
        measured=tuple(measured_of(e) for e in run.evaluations),
        looks={e.label: (e.median_sample, e.worst_sample) for e in run.evaluations if e.label in pictured},
        rollout=run.rollout and replace(run.rollout, film=None),
        made=run.made,
        clock=run.clock,
        outputs=asdict(run.outputs) if run.outputs else {},
        curve=tuple(line["validation_error"] for line in run.metrics),
        weights=run.weights,
    )


def operations_of(experiment: Experiment) -> int:
    """Operations of one evaluation on the grid that the experiment trains on."""
    return count_operations(experiment.make_operator, experiment.problem.grid(experiment.data.resolution))


def write_results(results: Results, path: Path) -> None:
    """Put the results at the path in one step."""
    values = {"version": VERSION} | asdict(replace(results, views={})) | {"views": pack_views(results.views)}
    values["runs"] = {name: record_values(record) for name, record in results.runs.items()}
    write_bytes(path, (json.dumps(values, allow_nan=False, separators=(",", ":")) + "\n").encode())


def read_results(path: Path) -> Results:
    """The results of a file, if it is whole and of this version."""
    values = read_json(path)
    try:
        if values["version"] != VERSION:
            raise ValueError(f"it is of version {values['version']}, not {VERSION}")
        return Results(
            studies=tuple(values["studies"]),
            recipe=values["recipe"],
            made=values["made"],
            costs={name: Cost(**cost) for name, cost in values["costs"].items()},
            runs={name: record_from(record) for name, record in values["runs"].items()},
            absent=values["absent"],
            failures=tuple(Failure(**failure) for failure in values["failures"]),
            views=unpack_views(values["views"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise DataError(f"{path} holds no results of a reproduction ({error}); make them again") from None


def record_values(record: Record) -> dict[str, Any]:
    """A record as plain values."""
    values = asdict(record)
    values["rollout"] = record.rollout and rollout_values(record.rollout)
    values["looks"] = {label: [rounded(look, DIGITS) for look in pair] for label, pair in values["looks"].items()}
    return values


def record_from(values: Mapping[str, Any]) -> Record:
    """The record that plain values describe."""
    measured = tuple(map(_measured_from, values["measured"]))
    fresh = values.get("fresh") and _measured_from(values["fresh"])
    curve = tuple(map(float, values.get("curve", ())))
    looks = {label: (look_of(median), look_of(worst)) for label, (median, worst) in values["looks"].items()}
    rollout = values["rollout"] and rollout_of(values["rollout"])
    made = {"measured": measured, "fresh": fresh, "curve": curve, "looks": looks, "rollout": rollout}
    return Record(**{**values, **made})


def _measured_from(values: Mapping[str, Any]) -> Measured:
    values = {"standardised_errors": (), **values}
    errors = {name: tuple(map(float, values[name])) for name in _ERRORS}
    return Measured(
        **{
            **values,
            **errors,
            "spectrum": values["spectrum"] and spectrum_of(values["spectrum"]),
            "jumps": values["jumps"] and jumps_of(values["jumps"]),
            **{name: Summary(**values[name]) if values.get(name) else None for name in _SUMMARIES},
        }
    )


def measured_of(evaluation: Evaluation) -> Measured:
    """An evaluation without its pictures."""
    names = Measured.__dataclass_fields__.keys() & Evaluation.__dataclass_fields__.keys()
    return Measured(**{name: getattr(evaluation, name) for name in names})
