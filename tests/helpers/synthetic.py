"""Records of runs that never were, whose medians, means and worst errors are known."""

from dataclasses import replace

from operformer.evaluation.errors import Images
from paper.recipes import check_recipe, find_run
from paper.record import Measured, Record

GRIDS = {"0.5x": 3.0, "0.75x": 2.0, "1x": 1.0, "1.5x": 1.5, "2x": 2.5, "graded": 4.0}
MADE = {
    "operformer": "0.1.0", "commit": "abc123", "is_clean": True, "device": "a GPU", "torch": "2.13.0",
    "started": "2030-01-01T00:00:00+00:00",
}  # fmt: skip


def errors(median, count):
    """Equally spaced from 0 to twice the median, which is their mean, too."""
    return tuple(2 * median * k / (count - 1) for k in range(count))


def record(name, recipe, median, seed=0, seconds=100.0, **made):
    """A record by a recipe; on other grids errors are multiples of the training grid's, H1's tenfold."""
    experiment = find_run(name, recipe)
    experiment = replace(experiment, training=replace(experiment.training, seed=seed))
    count = experiment.data.test
    measured = tuple(
        Measured(label, 7, errors(factor * median, count), errors(10 * factor * median, count))
        for label, factor in GRIDS.items()
    )
    return Record(
        settings=experiment.to_mapping(),
        parameters=598145,
        operations=10**9,
        seconds=seconds,
        measured=measured,
        made=MADE | made,
        clock={"data": 7.0, "evaluation": 11.0},
        recipe=recipe,
        changes=check_recipe(experiment, recipe),
    )


def pictured(name, points):
    """A record of median 1e-2 with pictures of its median and its worst sample on the training grid."""
    given = record(name, "best", 1e-2)
    axis = [k / points for k in range(points)]
    u, z = ([[[0.1 * x + factor * y for y in axis] for x in axis]] for factor in (1.0, 2.0))
    chosen = (sorted(given.trained.errors)[len(given.trained.errors) // 2], given.trained.l2.worst)
    looks = (Images(e, axis, axis, u, z, [[[v + e for v in row] for row in z[0]]]) for e in chosen)
    return replace(given, looks={"1x": tuple(looks)})
