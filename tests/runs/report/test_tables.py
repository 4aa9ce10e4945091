"""Tables whose numbers can be computed by hand."""

from dataclasses import replace

from operformer.evaluation.face_jumps import AxisJumps, FaceJumps
from operformer.evaluation.rollout import Rollout
from operformer.runs.report.tables import Table, error_table, grid_name, remarks, run_names, settings_table

# Errors of 1, 2, 3 and 6 %: median 2.5 %, mean 3 %.
TRAINED = ("2.50%", "3.00%", "6.00%", "1.00")
ELSEWHERE = ("3.75%", "4.50%", "9.00%", "1.50")


def test_the_errors_of_one_run(make_run):
    table = error_table([make_run()])
    assert table.header == ("grid", "points", "operator", "median", "mean", "worst", "ratio")
    assert table.rows == (
        ("0.5 × resolution", "6", "TNO", *ELSEWHERE),
        ("training grid", "11", "TNO", *TRAINED),
        ("2 × resolution", "21", "TNO", *ELSEWHERE),
        ("irregular grid", "9", "TNO", *ELSEWHERE),
        ("graded grid", "11", "TNO", *ELSEWHERE),
    )


def test_the_ratio_of_each_run_is_to_its_own_training_grid(make_run):
    table = error_table([make_run(), make_run(factor=2.0, plain=True)])
    assert table.rows[:4] == (
        ("0.5 × resolution", "6", "TNO", *ELSEWHERE),
        ("", "", "transformer", "7.50%", "9.00%", "18.00%", "1.50"),
        ("training grid", "11", "TNO", *TRAINED),
        ("", "", "transformer", "5.00%", "6.00%", "12.00%", "1.00"),
    )


def test_a_column_may_be_left_out():
    table = Table("T", ("a", "b", "c"), (("1", "2", "3"), ("4", "5", "6"))).without("b")
    assert (table.header, table.rows) == (("a", "c"), (("1", "3"), ("4", "6")))


def test_errors_in_h1_stand_beside_where_there_are_any(make_run):
    run, plain = make_run(labels=("1x", "2x")), make_run(plain=True, labels=("1x", "2x"))
    run = replace(run, evaluations=[replace(run.evaluations[0], h1_errors=(0.5, 0.1, 0.2, 0.3)), run.evaluations[1]])
    table = error_table([run, plain])
    assert table.title == "Relative L2 and H1 error on test samples"
    assert table.header[-2:] == ("ratio", "H1 median")
    assert [row[-1] for row in table.rows] == ["25.00%", "", "", ""]
    assert table.rows[0][3:7] == TRAINED


def test_faces_and_rollouts_have_a_line_each(make_run):
    run = make_run()
    assert remarks(run) == []
    jumps = FaceJumps((2,), (AxisJumps(0, 0.6, 0.2, 0.5, 0.4),))
    rolled = Rollout((0.1, 0.2), ((0.01, 0.02, 0.03), (0.02, 0.04, 0.5)), ((0.1,) * 3, (0.2,) * 3), None)
    evaluations = [replace(e, jumps=jumps) if e.label == "1x" else e for e in run.evaluations]
    one, other = remarks(replace(run, evaluations=evaluations, rollout=rolled))
    assert one == "face ratio 3.00: differences of the error across faces / inside patches (the truth: 1.25)"
    assert other == "rollout of 2 steps: median 4.00%, worst 50.00%; if nothing changed 20.00%"


def test_small_errors_are_not_shown_as_zero(make_run):
    for row in error_table([make_run(factor=1e-3)]).rows:
        assert all(float(cell.rstrip("%")) > 0 for cell in row[3:6])


def test_settings_hold_every_value_of_each_run(make_run):
    one, other = make_run(), make_run(plain=True)
    other = replace(other, parameters=7)
    rows = {row[0]: row[1:] for row in settings_table([one, other]).rows}
    assert rows["parameters"] == ("12,345", "7")
    assert rows["problem.recover"] == ("y", "y")
    assert rows["operator.name"] == ("TNO", "Transformer")
    assert rows["training.learning_rate"] == ("0.002", "0.002")
    assert rows["data.train"] == ("2000", "2000")
    for run, column in ((one, 0), (other, 1)):
        for section, values in run.experiment.to_mapping().items():
            for key in values if isinstance(values, dict) else ():
                assert rows[f"{section}.{key}"][column]


def test_settings_keep_every_digit(make_run):
    run = make_run()
    changed = replace(run.experiment.training, learning_rate=0.0012345678, weight_decay=1e-12)
    run = replace(run, experiment=replace(run.experiment, training=changed))
    rows = dict(settings_table([run]).rows)
    assert float(rows["training.learning_rate"]) == 0.0012345678
    assert float(rows["training.weight_decay"]) == 1e-12
    assert float(rows["problem.beta"]) == 8 / 3


def test_a_setting_that_one_run_lacks_is_left_empty(make_run):
    one = make_run(operator={"name": "TNO", "initial_channels": 0})
    rows = {row[0]: row[1:] for row in settings_table([one, make_run(plain=True)]).rows}
    assert rows["operator.initial_channels"] == ("0", "")


def test_two_operators_of_one_kind_can_be_told_apart(make_run):
    runs = [make_run(operator={"name": "TNO", "hidden_channels": width}) for width in (32, 64)]
    named = [replace(run, experiment=replace(run.experiment, name=f"width-{n}")) for n, run in enumerate(runs)]
    assert len(set(settings_table(named).header)) == 3
    assert len({row[2] for row in error_table(named).rows}) == 2


def test_names_for_readers(make_run):
    assert run_names([make_run(), make_run(plain=True)]) == ["TNO", "transformer"]
    assert [grid_name(label) for label in ("1x", "0.75x", "graded")] == [
        "training grid", "0.75 × resolution", "graded grid",
    ]  # fmt: skip


def test_markdown():
    table = Table("t", ("a", "b"), (("1", "x | y"), ("", "3rd")))
    assert table.markdown() == "| a | b |\n| ---: | ---: |\n| 1 | x \\| y |\n|  | 3rd |"
    assert Table("t", ("a", "b"), (("x", "2"), ("y", ""))).markdown().splitlines()[1] == "| --- | ---: |"


def test_latex():
    table = Table("5 % & more_", ("a", "d²"), (("<{x}>", "1 × 2"), ("", "3")))
    assert table.latex("tab:t_1").splitlines() == [
        r"\begin{table}[htbp]", r"\centering", r"\begin{tabular}{lr}", r"\hline", r"a & d$^2$ \\", r"\hline",
        r"$<$\{x\}$>$ & 1 $\times$ 2 \\", r" & 3 \\", r"\hline", r"\end{tabular}", r"\caption{5 \% \& more\_}",
        r"\label{tab:t_1}", r"\end{table}",
    ]  # fmt: skip
