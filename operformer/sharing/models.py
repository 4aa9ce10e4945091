"""The models that come with the library: operformer/models/NAME, which `operformer.load` finds by name."""

from __future__ import annotations

from pathlib import Path

from operformer.errors import DataError
from operformer.operators.pretrained import SHIPPED
from operformer.runs.report.tables import Table, percent
from operformer.sharing.card import read_front_matter


def model_table(models: Path = SHIPPED) -> Table:
    """The models that come with the library: what they map, what they were trained on, their errors and sizes."""
    header = ("model", "maps", "operator", "parameters", "trained on", "median", "worst", "size")
    rows = []
    for path in sorted(models.glob("*/README.md")):
        try:
            said = read_front_matter(path)["operformer"]
            errors = (percent(said["median"]), percent(said["worst"]))
            what = (said["maps"], said["operator"], f"{said['parameters']:,}", said["trained"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} says too little of its model ({error!r}); ship it again") from None
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        rows.append((path.parent.name, *what, *errors, f"{size / 1e6:.2f} MB"))
    return Table('Models: operformer.load("NAME")', header, tuple(rows))
