"""Figures hold the numbers of the runs, line by line."""

import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

from operformer.evaluation.errors import Images, Triangles
from operformer.evaluation.face_jumps import AxisJumps, FaceJumps
from operformer.evaluation.spectra import ErrorSpectrum
from operformer.operators.pretrained import OPERATORS
from operformer.problems import Lorenz63
from operformer.runs.report.figures import faces_figure, resolution_figure, samples_figure, to_svg, training_figure
from operformer.runs.report.figures.style import in_turn, look_of, looks_of
from operformer.runs.report.tables import spoken_operator


def line(axes, label):
    (found,) = [drawn for drawn in axes.lines if drawn.get_label() == label]
    return list(found.get_xdata()), list(found.get_ydata())


@pytest.mark.parametrize("label", ["1x", "irregular"])
def test_the_median_and_the_worst_sample_stand_side_by_side(make_run, label):
    run = make_run(name="lorenz-yz", problem=Lorenz63(recover=("z", "y"), initial=True))
    axes = np.array(samples_figure(run, label).axes).reshape(4, 2)
    evaluation = run.evaluation(label)
    for column, sample in enumerate((evaluation.median_sample, evaluation.worst_sample)):
        (drawn,) = axes[0, column].lines
        assert (list(drawn.get_xdata()), list(drawn.get_ydata())) == (sample.x, sample.u[0])
        for row, name in enumerate(("z", "y")):
            assert line(axes[1 + row, column], "truth") == (sample.x, sample.z[row])
            assert line(axes[1 + row, column], "prediction") == (sample.x, sample.prediction[row])
            assert len(axes[1 + row, column].lines) == 2
            # The predictions were made as (1 + error) times the truth.
            off = [sample.error * value for value in sample.z[row]]
            assert line(axes[3, column], name) == (sample.x, pytest.approx(off, abs=1e-12))
    assert [a.get_ylabel() for a in axes[:, 0]] == ["input x", "z", "y", "error"]
    assert axes[0, 0].get_title().startswith("median")
    assert axes[0, 1].get_title().startswith("worst")
    assert f"{evaluation.worst_sample.error:.2%}" in axes[0, 1].get_title()
    assert f"{evaluation.median_sample.error:.2%}" in axes[0, 0].get_title()


def test_a_problem_without_named_outputs_gets_letters(make_run):
    axes = samples_figure(make_run(name="controlled-ode"), "1x").axes
    assert [axes[row].get_ylabel() for row in (0, 2, 4)] == ["input u", "output z", "error"]


def test_points_are_marked_where_they_are_irregular(make_run):
    uniform, irregular = (samples_figure(make_run(), label).axes[0].lines[0] for label in ("1x", "graded"))
    assert uniform.get_marker() == "None"
    assert irregular.get_marker() == "."


def test_errors_stand_over_their_number_of_points(make_run):
    runs = [make_run(), make_run(factor=2.0, plain=True)]
    (axes,) = resolution_figure(runs).axes
    for name, factor in (("TNO", 1.0), ("transformer", 2.0)):
        points, medians = line(axes, f"{name}, median")
        assert points == [6, 11, 21]
        assert medians == pytest.approx([factor * value for value in (0.0375, 0.025, 0.0375)])
        assert line(axes, f"{name}, worst")[1] == pytest.approx([factor * value for value in (0.09, 0.06, 0.09)])
        for grid, number in (("irregular", 9), ("graded", 11)):
            points, medians = line(axes, f"{name}, {grid} grid, median")
            assert (points, medians) == ([number], pytest.approx([factor * 0.0375]))
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["6", "11", "21"]


def test_the_band_holds_the_middle_four_fifths(make_run):
    # Errors of 1, 2, 3 and 6 %: the quantiles 0.1 and 0.9 lie 0.3 and 2.7 steps along them.
    (axes,) = resolution_figure([make_run()]).axes
    (band,) = axes.collections
    (path,) = band.get_paths()
    at_trained = {round(y, 6) for x, y in path.vertices if x == 11}
    assert at_trained == {0.013, 0.051}


def test_the_training_grid_is_marked(make_run):
    (axes,) = resolution_figure([make_run()]).axes
    dashed = [drawn for drawn in axes.lines if drawn.get_linestyle() == "--"]
    assert [list(drawn.get_xdata()) for drawn in dashed] == [[11, 11]]


def test_every_run_is_drawn_however_many(make_run):
    runs = [make_run(factor=1.0 + k) for k in range(6)]
    (axes,) = resolution_figure(runs).axes
    solid = [drawn for drawn in axes.lines if drawn.get_linestyle() == "-"]
    medians = {round(float(drawn.get_ydata()[1]), 6) for drawn in solid}
    assert medians == {round(0.025 * (1 + k), 6) for k in range(6)}
    (axes,) = training_figure(runs).axes
    assert len(axes.lines) == 12


def test_the_training_is_drawn_by_epoch(make_run):
    (axes,) = training_figure([make_run(), make_run(factor=2.0, plain=True)]).axes
    for name, factor in (("TNO", 1.0), ("transformer", 2.0)):
        assert line(axes, f"{name}, loss") == ([1, 2, 3], pytest.approx([factor, factor / 2, factor / 3]))
        assert line(axes, f"{name}, validation")[1] == pytest.approx([factor / 2, factor / 4, factor / 6])
    assert axes.get_yscale() == "log"


def test_a_run_without_irregular_grids_is_drawn_without_them(make_run):
    (axes,) = resolution_figure([make_run(labels=("0.5x", "1x", "2x"))]).axes
    assert not [text for text in axes.get_legend().get_texts() if "grid" in text.get_text()]


def test_the_same_run_gives_the_same_picture(make_run):
    for draw in (lambda run: resolution_figure([run]), lambda run: samples_figure(run, "graded")):
        one, other = (to_svg(draw(make_run())) for _ in range(2))
        assert one == other
        assert one.startswith("<?xml")


def test_drawing_leaves_matplotlib_as_it_was(make_run):
    before = dict(mpl.rcParams)
    to_svg(training_figure([make_run()]))
    assert dict(mpl.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        assert not sys.modules["matplotlib.pyplot"].get_fignums()


def test_images_stand_side_by_side_with_the_logarithm_of_the_error(make_run):
    run = make_run(labels=("1x",))
    x, y = [0.0, 0.5, 1.0], [0.0, 1.0]
    z = [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]
    off = [[[1.0, 2.0], [3.0, 4.1], [5.0, 6.0]]]
    looks = [Images(error, x, y, z, z, off) for error in (0.02, 0.06)]
    evaluation = replace(run.evaluations[0], median_sample=looks[0], worst_sample=looks[1])
    figure = samples_figure(replace(run, evaluations=[evaluation]), "1x")
    pictures = [axes for axes in figure.axes if axes.collections and axes.get_xlabel() == "" and len(axes.images) == 0]
    titled = [axes for axes in pictures if axes.get_title()]
    assert len(titled) == 4
    error = titled[3].collections[0].get_array()
    assert error.max() == pytest.approx(-1, abs=1e-5)  # log10 0.1
    assert error.reshape(2, 3)[1, 1] == error.max()  # at x = 0.5, y = 1


def test_functions_on_a_mesh_are_drawn_on_its_triangles(make_run):
    run = make_run(labels=("1x",))
    points, corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 2.0]], [[0, 1, 2], [1, 3, 2]]
    z = [[1.0, 2.0, 3.0, 4.0]]
    looks = [Triangles(error, points, corners, z, z, [[1.0, 2.0, 3.1, 4.0]]) for error in (0.02, 0.06)]
    evaluation = replace(run.evaluations[0], median_sample=looks[0], worst_sample=looks[1])
    figure = samples_figure(replace(run, evaluations=[evaluation]), "1x")
    pictures = [axes.collections[0] for axes in figure.axes if axes.get_title()]
    assert len(pictures) == 4
    assert pictures[0].get_array().tolist() == z[0]
    assert pictures[3].get_array()[2] == pytest.approx(-1, abs=1e-5)  # log10 0.1
    assert max(path.vertices[:, 1].max() for path in pictures[0].get_paths()) == 2


def test_faces_are_seen_in_the_error_its_spectrum_its_norms_and_its_jumps(make_run):
    run = make_run(labels=("1x", "2x"))
    spectrum = ErrorSpectrum("cosine", (0.0, 1.0, 2.0), (0.5, 0.3, 0.2), (0.0,) * 3, (1e-3, 2e-3, 0.0))
    jumps = [FaceJumps((4,), (AxisJumps(0, across, 0.2, 0.5, 0.4),)) for across in (0.4, 0.8)]
    added = [{"jumps": faces, "spectrum": spectrum, "h1_errors": (0.1, 0.2, 0.3)} for faces in jumps]
    evaluations = [replace(e, **more) for e, more in zip(run.evaluations, added, strict=True)]
    picture, energy, norms, ratios = faces_figure(replace(run, evaluations=evaluations)).axes
    sample = run.evaluations[0].median_sample
    off = [p - z for p, z in zip(sample.prediction[0], sample.z[0], strict=True)]
    error, *faces = picture.lines
    assert list(error.get_ydata()) == pytest.approx(off)
    ((lower, upper),) = run.experiment.problem.bounds
    assert [drawn.get_xdata()[0] for drawn in faces] == [lower + k * (upper - lower) / 4 for k in (1, 2, 3)]
    assert line(energy, "truth") == ([1.0, 2.0], [0.3, 0.2])
    assert line(energy, "error") == ([1.0], [2e-3])
    assert line(norms, "L2") == ([11, 21], pytest.approx([0.025, 0.0375]))
    assert line(norms, "H1") == ([11, 21], [0.2, 0.2])
    assert line(ratios, "faces over inside") == ([11, 21], pytest.approx([2.0, 4.0]))


def test_every_operator_has_a_colour_and_a_marker_of_its_own():
    found = [look_of(spoken_operator(name)) for name in OPERATORS]
    assert len(set(found)) == len(found)
    with pytest.raises(KeyError, match="no colour for the operator 'TNOO'"):
        look_of("TNOO")


def test_lines_of_one_operator_have_colours_in_turn():
    assert looks_of(["TNO", "FNO"]) == [look_of("TNO"), look_of("FNO")]
    assert looks_of(["TNO", "TNO"]) == in_turn(2)
