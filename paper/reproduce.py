"""Studies carried out in a folder: runs/NAME for each experiment, results.json, then what is drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from operformer.errors import OperformerError
from operformer.runs import read_run
from operformer.runs.experiment import Experiment
from operformer.runs.gallery import read_gallery
from operformer.runs.provenance import provenance
from paper.cost import costs
from paper.record import Results, read_results, record_of, write_results
from paper.runs import Failure, carry_out
from paper.samples import views_of
from paper.studies import Study

RESULTS = "results.json"
SHOWN_GRIDS = ("1x", "irregular", "graded")  # in pictures


def reproduce(
    studies: Sequence[Study],
    experiments: Mapping[str, Experiment],
    recipe: str,
    folder: Path,
    jobs: int,
    tell: Callable[[str], None],
) -> Results:
    """Train what is missing and gather folder/results.json, as it reads from there; drawing is `draw`."""
    wanted = {name: experiments[name] for study in studies for name in study.runs}
    failures = carry_out(wanted, folder / "runs", jobs, tell)
    runs, views = {}, {}
    for name in wanted.keys() - {failure.name for failure in failures}:
        place, is_main = folder / "runs" / name, "-width-" not in name
        try:
            runs[name] = record_of(read_run(place), SHOWN_GRIDS if is_main else ())
            views[name] = views_of(read_gallery(place / "gallery.npz")) if is_main else {}
        except OperformerError as error:  # a file that was damaged since
            failures.append(Failure(name, str(error), error.exit_code))
    results = Results(
        studies=tuple(study.name for study in studies),
        recipe=recipe,
        made=provenance(),
        costs=costs(),
        runs={name: runs[name] for name in wanted if name in runs},
        absent={name: wanted[name].to_mapping() for name in wanted if name not in runs},
        failures=tuple(failures),
        views={name: views[name] for name in wanted if views.get(name)},
    )
    write_results(results, folder / RESULTS)
    return read_results(folder / RESULTS)
