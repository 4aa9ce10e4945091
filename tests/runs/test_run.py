"""A run in its folder: what it leaves, what it reads back, what it refuses."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import operformer
from operformer import FANO, load
from operformer.data.generation import Draw, generate
from operformer.data.importing import store
from operformer.domain import Grid, Samples, h1_norm, l2_norm
from operformer.errors import DataError, DivergedError, ResourceError, UsageError
from operformer.problems import ControlledODE, Kolmogorov, Lorenz63
from operformer.runs import evaluate_run, find_experiment, read_experiment, read_run, train_run
from operformer.runs.experiment import parse
from operformer.runs.folder import outputs_of
from operformer.runs.gallery import read_gallery
from operformer.runs.report.page import write_page
from operformer.sharing.card import card
from operformer.training import loop as training
from operformer.training.status import read_metrics

SMALL = [
    "data.train=13", "data.validation=3", "data.test=5", "data.resolution=8", "data.seed=7",
    "operator.hidden_channels=6", "operator.n_layers=1", "operator.n_heads=2",
    "training.epochs=2", "training.batch_size=5", "training.device=cpu",
]  # fmt: skip
POINTS = {"0.5x": 5, "0.75x": 7, "1x": 9, "1.5x": 13, "2x": 17, "irregular": 7, "graded": 9}


def small(*overrides, name="controlled-ode"):
    law = ["problem.name=ControlledODE"] if name == "controlled-ode" else []
    return find_experiment("lorenz-y", [*law, *SMALL, f"name={name}", *overrides])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a run that was trained and evaluated; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "done"
    train_run(small(), folder)
    evaluate_run(folder)
    return folder


@pytest.fixture
def folder(done, tmp_path):
    """A copy of it that may be damaged."""
    for path in done.rglob("*"):
        if path.is_file():
            target = tmp_path / "run" / path.relative_to(done)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path / "run"


def test_each_step_leaves_its_file(done):
    assert sorted(path.name for path in done.iterdir()) == [
        ".lock", "checkpoints", "evaluation.json", "experiment.json", "gallery.npz", "made.json", "metrics.jsonl",
        "operator", "outputs.json", "seconds.json", "status.json", "training.json",
    ]  # fmt: skip
    assert read_experiment(done) == small()


def test_the_record_comes_back_as_it_was(done):
    run = read_run(done)
    assert run.experiment == small()
    assert run.parameters == sum(p.numel() for p in operformer.load(done / "operator").parameters())
    assert [record["epoch"] for record in run.metrics] == [1, 2]
    assert {e.label: e.points for e in run.evaluations} == POINTS
    assert run.evaluations == evaluate_run(done)


def test_errors_are_those_on_the_draws_after_training_and_validation(done):
    operator = operformer.load(done / "operator")
    grids = ControlledODE().evaluation_grids(8)
    assert grids.keys() == POINTS.keys()
    for label, grid in grids.items():
        samples = ControlledODE().sample(5, grid, seed=7, first=16)
        prediction = operator(samples.u.float(), grid).double()
        expected = l2_norm(prediction - samples.z, grid) / l2_norm(samples.z, grid)
        assert read_run(done).evaluation(label).errors == pytest.approx(expected.tolist(), rel=1e-5)
        # With one channel standardising moves the truth by the mean of the training samples and changes nothing else.
        mean = ControlledODE().sample(13, 8, seed=7).z.mean(0) @ grids["1x"].weights / grids["1x"].weights.sum()
        moved = l2_norm(prediction - samples.z, grid) / l2_norm(samples.z - mean, grid)
        assert read_run(done).evaluation(label).standardised_errors == pytest.approx(moved.tolist(), rel=1e-5)


def test_a_run_without_its_units_takes_them_from_the_operator_or_has_none(folder):
    whole = [e.standardised_errors for e in evaluate_run(folder)]
    (folder / "outputs.json").unlink()
    assert [list(e.standardised_errors) for e in evaluate_run(folder)] == [pytest.approx(e, rel=1e-5) for e in whole]
    values = json.loads((folder / "evaluation.json").read_text())  # of 0.1.0
    (folder / "evaluation.json").write_text(json.dumps([{k: one[k] for k in one if k[:4] != "stan"} for one in values]))
    assert read_run(folder).evaluation("1x").standardised is None
    increment = operformer.Increment(operformer.load(folder / "operator"))
    assert outputs_of(folder, increment) is None  # whose normalisation is that of z - u


def test_training_and_validation_pairs_are_the_first_of_the_draw(monkeypatch, tmp_path):
    seen = {}

    def spy(operator, samples, validation, *rest):
        seen.update(train=samples, validation=validation)

    monkeypatch.setattr("operformer.runs.steps.train", spy)
    train_run(small(), tmp_path)
    drawn = ControlledODE().sample(16, 8, seed=7)
    assert torch.equal(torch.cat([seen["train"].z, seen["validation"].z]), drawn.z.float())
    assert (len(seen["train"]), len(seen["validation"])) == (13, 3)


def test_coarser_pairs_are_the_same_draws(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr("operformer.runs.steps.train", lambda operator, samples, *rest: seen.append((samples, rest)))
    train_run(small("data.coarser=[2, 4]", "training.augment=true", name="lorenz-y"), tmp_path)
    ((levels, rest),) = seen
    for level, resolution in zip(levels, (2, 4, 8), strict=True):
        assert torch.equal(level.z, Lorenz63().sample(13, resolution, seed=7).z.float())
    assert rest[0].grid.shape == (9,)  # validated at data.resolution
    assert rest[-1] == Lorenz63().symmetries


def test_a_run_that_another_process_trains_is_left_alone(folder):
    hold = "import sys; from pathlib import Path; from operformer.training.lock import locked\n"
    hold += "with locked(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", hold, str(folder)], stdin=-1, stdout=-1)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
    try:
        other.stdout.readline()
        with pytest.raises(ResourceError, match="is being trained by process"):
            train_run(small(), folder)
    finally:
        other.kill()
        other.communicate()
    assert all(path.read_bytes() == content for path, content in before.items())


def test_an_evaluation_of_an_earlier_operator_is_not_taken_for_one_of_the_last(monkeypatch, tmp_path):
    # Stopped after the first of two epochs, evaluated to have a look, trained to the end.
    monkeypatch.setattr(training.TrainingDisplay, "epoch", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_run(small(), tmp_path)
    monkeypatch.undo()
    evaluate_run(tmp_path)
    early = operformer.load(tmp_path / "operator").state_dict()
    train_run(small(), tmp_path)
    late = operformer.load(tmp_path / "operator").state_dict()
    assert not all(torch.equal(early[key], late[key]) for key in late)
    with pytest.raises(DataError, match="evaluat"):
        read_run(tmp_path)


def _interrupt(*_):
    raise KeyboardInterrupt


# Folders that hold something else


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("training.epochs=3", "training.epochs"),
        ("problem.n_terms=9", "problem.n_terms"),
        ("data.seed=8", "data.seed"),
        ("operator.n_heads=3", "operator.n_heads"),
        ("operator.waves=1", "operator.waves"),
    ],
)
def test_another_experiment_is_refused_with_what_differs(folder, override, key):
    before = (folder / "experiment.json").read_bytes()
    with pytest.raises(UsageError, match="holds another experiment") as caught:
        train_run(small(override), folder)
    assert key in str(caught.value)
    assert (folder / "experiment.json").read_bytes() == before


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ("training.device=cuda", ResourceError),
        ("problem.rho=1e12", DivergedError),  # the trajectories leave the numbers
    ],
)
def test_a_run_that_could_not_start_does_not_occupy_its_folder(tmp_path, monkeypatch, override, error):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(error):
        train_run(small(override, name="lorenz-y"), tmp_path)
    train_run(small(name="lorenz-y"), tmp_path)  # the remedy of the message
    assert read_experiment(tmp_path) == small(name="lorenz-y")


def test_a_folder_without_a_run_is_told_with_the_command_that_makes_one(tmp_path):
    for read in (read_run, evaluate_run, read_experiment):
        with pytest.raises(DataError, match="holds no run; train one with: operformer train"):
            read(tmp_path)


def test_a_run_that_was_not_evaluated_is_told_so(folder):
    (folder / "evaluation.json").unlink()
    with pytest.raises(DataError, match="is not evaluated; run: operformer evaluate"):
        read_run(folder)


# Damage


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def edit(change):
    return lambda path: path.write_text(json.dumps(change(json.loads(path.read_text()))))


def first(**changes):
    return edit(lambda evaluations: [{**evaluations[0], **changes}, *evaluations[1:]])


DAMAGE = {
    "experiment.json": {
        "cut": cut,
        "a setting too many": edit(lambda e: e | {"scale": 1}),
        "a section that is a number": edit(lambda e: e | {"data": 1}),
        "a problem that is none": edit(lambda e: e | {"problem": {"name": ["Lorenz63"]}}),
    },
    "metrics.jsonl": {
        "cut": cut,
        "missing": lambda path: path.unlink(),
        "a line that is no record": lambda path: path.write_text("3\n"),
    },
    "evaluation.json": {
        "cut": cut,
        "a list of numbers": edit(lambda e: [1, 2]),
        "no errors": first(errors=[]),
        "errors that are text": first(errors=["a", "b"]),
        "a sample that is none": first(worst_sample=3),
        "something more": first(more=3),
        "an earlier version": edit(lambda e: [{k: v for k, v in one.items() if k != "h1_errors"} for one in e]),
        "errors in h1 of fewer samples": first(h1_errors=[0.1]),
        "errors that are numbers in text": first(errors=["0.1"] * 5),
        "a spectrum that is none": first(spectrum={"transform": "sine"}),
        "a spectrum of unequal rows": edit(
            lambda e: [{**e[0], "spectrum": {**e[0]["spectrum"], "truth": [1.0]}}, *e[1:]]
        ),
        "jumps that are none": first(jumps={"n_patches": [2], "along": [3]}),
        "a sample off its axis": edit(
            lambda e: [{**e[0], "worst_sample": {**e[0]["worst_sample"], "x": [0.0, 1.0]}}, *e[1:]]
        ),
        "a sample of texts": edit(
            lambda e: [{**e[0], "worst_sample": {**e[0]["worst_sample"], "z": [["a"] * 5]}}, *e[1:]]
        ),
        "no training grid": edit(lambda e: [one for one in e if one["label"] != "1x"]),
    },
}


@pytest.mark.parametrize(("name", "damage"), [(name, damage) for name, cases in DAMAGE.items() for damage in cases])
def test_damage_is_told_in_one_line_that_names_the_file(folder, name, damage):
    DAMAGE[name][damage](folder / name)
    with pytest.raises(DataError) as caught:
        read_run(folder)
    assert str(folder / name) in str(caught.value)
    assert "\n" not in str(caught.value)


DARCY = [
    "problem.name=Darcy", "problem.n_modes=8", "problem.coefficient=piecewise", "operator.name=FANO",
    "operator.n_patches=[2, 2]", "operator.n_modes=2", "operator.hidden_channels=4", "data.resolution=8",
]  # fmt: skip


def darcy(*overrides):
    return find_experiment("lorenz-y", [*DARCY, *SMALL, *overrides])


def test_every_measure_of_a_run_in_two_dimensions(tmp_path):
    train_run(darcy(), tmp_path)
    evaluations = {e.label: e for e in evaluate_run(tmp_path)}
    assert read_run(tmp_path).evaluations == list(evaluations.values())
    operator, problem = operformer.load(tmp_path / "operator"), darcy().problem
    for label, grid in problem.evaluation_grids(8).items():
        # Off uniform grids the truth is read from a solution on 33 x 33 nodes.
        samples = replace(problem, fine=33).sample(5, grid, seed=7, first=16)
        prediction = operator(samples.u.float(), grid).double()
        expected = h1_norm(prediction - samples.z, grid) / h1_norm(samples.z, grid)
        assert evaluations[label].h1_errors == pytest.approx(expected.tolist(), rel=1e-4)
        shown = read_gallery(tmp_path / "gallery.npz")[label]
        assert shown.z == pytest.approx(samples.z.numpy(), rel=1e-5)
        assert shown.prediction == pytest.approx(prediction.detach().numpy(), rel=1e-3, abs=1e-5)
        assert shown.errors.tolist() == pytest.approx(evaluations[label].errors, rel=1e-6)
    assert list(read_gallery(tmp_path / "gallery.npz")) == list(evaluations)
    assert evaluations["graded"].spectrum is None
    for evaluation in evaluations.values():
        if evaluation.label != "graded":
            mean_square = sum(error**2 for error in evaluation.errors) / 5
            assert sum(evaluation.spectrum.error) == pytest.approx(mean_square, rel=1e-9)
            assert evaluation.spectrum.transform == "cosine"
            assert evaluation.jumps.n_patches == (2, 2)
    assert not (tmp_path / "rollout.json").exists()


FLOW = [
    "problem.name=Kolmogorov", "problem.viscosity=0.2", "problem.forcing=2", "problem.start=0.3", "problem.lead=0.2",
    "problem.scale=2e5", "problem.tau=2.0", "problem.alpha=6.0", "problem.n_modes=11", "problem.step=0.01",
]  # fmt: skip


def test_a_rollout_that_is_not_resolved_gets_the_modes_of_the_law(tmp_path, monkeypatch):
    solve, solved = Kolmogorov._solve, []

    def checked(problem, draws, grid):
        if problem.moments > 1 and problem.n_modes < Kolmogorov.n_modes:
            raise DivergedError("the flow is not resolved")
        solved.append((problem.moments, problem.n_modes, problem.viscosity))
        return solve(problem, draws, grid)

    monkeypatch.setattr(Kolmogorov, "_solve", checked)
    train_run(darcy(*FLOW), tmp_path / "run")
    evaluate_run(tmp_path / "run")
    assert len(read_run(tmp_path / "run").rollout.errors) == 10
    assert solved[-1] == (10, 54, 0.2)


def test_a_flow_is_rolled_out_along_its_trajectory(tmp_path, call):
    train_run(darcy(*FLOW), tmp_path / "run")
    code, out, _ = call("evaluate", tmp_path / "run")
    assert code == 0
    run = read_run(tmp_path / "run")
    problem, grid = run.experiment.problem, run.experiment.problem.grid(8)
    samples = replace(problem, moments=10).sample(5, grid, seed=7, first=16)
    operator, state = operformer.load(tmp_path / "run" / "operator"), samples.u.float()
    assert run.rollout.times == pytest.approx([0.2 * k for k in range(1, 11)])
    for step in range(10):
        state = operator(state, grid)
        z = samples.z[:, step : step + 1]
        for found, errors in ((state, run.rollout.errors), (samples.u, run.rollout.persistence)):
            expected = l2_norm(found.double() - z, grid) / l2_norm(z, grid)
            assert errors[step] == pytest.approx(expected.tolist(), rel=1e-3)
    assert run.rollout.errors[0] == pytest.approx(run.evaluation("1x").errors, rel=1e-5)
    assert run.evaluation("1x").spectrum.transform == "fourier"
    assert run.evaluation("graded").points == 64
    for part in ("H1 median", "face ratio", "rollout of 10 steps"):
        assert part in out


def test_a_rollout_of_an_earlier_operator_goes_with_its_evaluation(folder):
    for name in ("gallery.npz", "rollout.json"):
        (folder / name).write_text("{}")
    evaluate_run(folder)
    assert not (folder / "rollout.json").exists()  # an ordinary differential equation has none
    assert "1x" in read_gallery(folder / "gallery.npz")


def test_pairs_from_a_set_on_disk_give_the_same_training(tmp_path):
    experiment = darcy(f"data.folder={tmp_path / 'data'}")
    generate(experiment.problem, Draw(16, 8, seed=7), tmp_path / "data")
    train_run(experiment, tmp_path / "stored")
    train_run(darcy(), tmp_path / "drawn")
    metrics = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("stored", "drawn")]
    for one, other in zip(*metrics, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)


@pytest.mark.parametrize(
    ("draw", "problem", "complaint"),
    [
        (Draw(16, 8, seed=8), {}, "seed differs"),
        (Draw(16, 10, seed=7), {}, "resolution differs"),
        (Draw(16, 8, seed=7, first=1), {}, "first differs"),
        (Draw(16, 8, seed=7), {"tau": 5.0}, "problem differs"),
        (Draw(15, 8, seed=7), {}, "holds 15 samples, and 16 are asked for"),
    ],
)
def test_another_set_on_disk_is_refused(draw, problem, complaint, tmp_path):
    experiment = darcy(f"data.folder={tmp_path / 'data'}")
    generate(replace(experiment.problem, **problem), draw, tmp_path / "data")
    with pytest.raises(UsageError, match=complaint):
        train_run(experiment, tmp_path / "run")


def own(folder, *overrides, shape=(8, 10), kind="cells"):
    """An experiment on arrays of one's own: 24 pairs on 8 x 10 cells."""
    numbers = torch.rand(24, 1, 1, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grid = Grid.uniform(shape, bounds=[(0, 1), (0, 2)], kind=kind)
    u = numbers + torch.sin(3 * numbers * grid.points[..., 0] + grid.points[..., 1]).reshape(24, 1, *shape)
    store(Samples(u, u.cumsum(-1), grid), folder, "mine", {"file": "mine"})
    imported = ["problem.name=Imported", f"problem.folder={folder}"]
    return find_experiment("lorenz-y", [*DARCY, *SMALL, *imported, *overrides])


def test_an_imported_set_is_trained_evaluated_and_reported(tmp_path):
    train_run(own(tmp_path / "data"), tmp_path / "run")
    (evaluation,) = evaluate_run(tmp_path / "run")
    assert (evaluation.label, evaluation.points) == ("1x", 80)
    operator = operformer.load(tmp_path / "run" / "operator")
    last = operformer.open_pairs(tmp_path / "data")[16:21].read()  # 13 to train, 3 to validate, 5 to test
    found = operator(last.u.float(), last.grid).double()
    expected = l2_norm(found - last.z, last.grid) / l2_norm(last.z, last.grid)
    assert evaluation.errors == pytest.approx(expected.flatten().tolist(), rel=1e-5)
    write_page([read_run(tmp_path / "run")], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "problem.folder" in page
    assert "data.train" in page
    assert "data.resolution" not in page  # the set has its own


def test_the_card_of_an_imported_set_says_on_how_many_points_it_is_known(tmp_path):
    train_run(own(tmp_path / "data", shape=(12, 16), kind="periodic"), tmp_path / "run")
    evaluate_run(tmp_path / "run")
    text = card(read_run(tmp_path / "run"))
    assert "13 samples on 12 x 16 points, " in text
    assert "at resolution" not in text


def test_an_imported_set_is_evaluated_on_coarser_grids_that_are_part_of_its_own(tmp_path):
    train_run(own(tmp_path / "data", shape=(12, 16), kind="periodic"), tmp_path / "run")
    coarse, whole = evaluate_run(tmp_path / "run")
    assert [(e.label, e.points) for e in (coarse, whole)] == [("0.5x", 48), ("1x", 192)]
    operator = operformer.load(tmp_path / "run" / "operator")
    last = operformer.open_pairs(tmp_path / "data")[16:21].read()
    grid = Grid.uniform((6, 8), bounds=[(0, 1), (0, 2)], kind="periodic")
    z = last.z[..., ::2, ::2]
    found = operator(last.u[..., ::2, ::2].float(), grid).double()
    assert coarse.errors == pytest.approx((l2_norm(found - z, grid) / l2_norm(z, grid)).tolist(), rel=1e-5)
    write_page([read_run(tmp_path / "run")], tmp_path / "report.html")
    assert "0.5 × resolution" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("data.train=22", "holds 24 samples, and 30 are asked for; lower data.train, data.validation or data.test"),
        ("data.test=9", "holds 24 samples, and 25 are asked for; lower data.train"),  # before training, not after it
        ("data.coarser=[4]", "pairs and no law"),
    ],
)
def test_more_than_an_imported_set_has_is_refused(override, complaint, tmp_path):
    with pytest.raises(UsageError, match=complaint):
        train_run(own(tmp_path / "data", override), tmp_path / "run")


def test_an_imported_set_is_no_draw_of_a_law(tmp_path):
    own(tmp_path / "data")
    with pytest.raises(UsageError, match=r"was imported; set problem\.name=Imported"):
        train_run(darcy(f"data.folder={tmp_path / 'data'}"), tmp_path / "run")


def test_a_run_without_an_overlap_was_trained_with_hard_patches(tmp_path):
    (tmp_path / "experiment.json").write_text('{"operator": {"name": "FANO", "n_patches": [2], "n_modes": 3}}')
    assert read_experiment(tmp_path).operator["overlap"] == 0
    now = parse({"operator": {"name": "FANO", "n_patches": [2], "n_modes": 3}})
    assert now.operator["overlap"] == now.make_operator().overlap.margin == 0.25
    operator = FANO((2,), 3, 1, 1, hidden_channels=4, n_layers=1, n_heads=1, overlap=0).eval()
    operator.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["settings"]["overlap"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load(tmp_path).overlap.margin == 0
