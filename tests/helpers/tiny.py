"""A study of two tiny experiments."""

from functools import partial

from operformer.problems import LAWS, Darcy
from operformer.runs.experiment import Data, Experiment
from operformer.training.recipe import Training
from paper.figures import resolutions, sample_pair, spectra, tradeoff, trained_spectrum
from paper.studies import FigureOf, Study, TableOf
from paper.tables import accuracy_table, cost_table, grid_table, jump_table

SMALL = {"hidden_channels": 6, "n_layers": 1, "n_heads": 2}


def line(name, **training):
    """Lorenz 63 on nine points."""
    problem = LAWS["lorenz-yz"]
    settings = {"epochs": 1, "batch_size": 5, "device": "cpu"} | training
    return Experiment(name, problem, {"name": "TNO"} | SMALL, Data(8, 13, 3, 5), Training(**settings))


def plane(name, **operator):
    """Darcy flow on 8 x 8 cells."""
    settings = {"name": "FANO", "n_patches": (2, 2), "n_modes": 2, "overlap": 0} | SMALL | operator
    return Experiment(
        name, Darcy(n_modes=16), settings, Data(8, 6, 2, 3), Training(epochs=1, batch_size=3, loss="h1", device="cpu")
    )


NAMES = ("lorenz-yz", "darcy-416-fano")
TINY = Study(
    "tiny",
    "A tiny study",
    "Two runs < 3.",
    NAMES,
    (
        TableOf("accuracy", "tab:accuracy_a", partial(accuracy_table, title="Errors & more, 100 %", names=NAMES)),
        TableOf("grids", "tab:grids", partial(grid_table, title="Grids", names=NAMES)),
        TableOf("jumps", "tab:jumps", partial(jump_table, title="Jumps", names=NAMES)),
        TableOf("cost", "tab:cost", cost_table),
    ),
    (
        FigureOf("curves", "fig:curves", "Curves.", partial(sample_pair, names=NAMES[:1])),
        FigureOf("images", "fig:images", "Images.", partial(sample_pair, names=NAMES[1:2])),
        FigureOf("nothing", "fig:nothing", "Nothing.", partial(sample_pair, names=["darcy-416-fno"])),
        FigureOf("resolutions", "fig:resolutions", "Resolutions.", partial(resolutions, groups=[[n] for n in NAMES])),
        FigureOf("spectra", "fig:s", "Spectra.", partial(spectra, groups=[NAMES[1:]], of=trained_spectrum)),
        FigureOf("tradeoff", "fig:t", "Costs.", partial(tradeoff, groups=[NAMES, NAMES[1:]], cost="operations")),
    ),
)
EXPERIMENTS_OF_TINY = {NAMES[0]: line(NAMES[0]), NAMES[1]: plane(NAMES[1])}
