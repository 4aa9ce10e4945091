"""Every run of Section 6 as a frozen value, at the paper's scale and at a scale that a laptop finishes."""

from __future__ import annotations

from dataclasses import dataclass

from paper import line
from paper.plane import HIGH, LOW, WIDTHS, run
from paper.scales import Scales


@dataclass(frozen=True)
class Exhibit:
    """The runs that a table or figures of the paper show, each named where it is first needed."""

    title: str
    runs: dict[str, Scales]


def _all(*runs: dict[str, Scales]) -> dict[str, Scales]:
    return {name: scales for one in runs for name, scales in one.items()}


EXHIBITS = (
    Exhibit(
        "Section 6.1, Figures xtoyz, superresolution_1d, irregular and irregular_t",
        {
            "lorenz-y": line.lorenz_y(),
            "lorenz-y-transformer": line.lorenz_y_transformer(),
            "lorenz-yz": line.lorenz_yz(),
            "lorenz-yz-invariant": line.lorenz_yz_invariant(),
            "controlled-ode": line.controlled_ode(),
        },
    ),
    Exhibit(
        "Table 2d_median_errors_low, Figure superresolution_lognormal (left)",
        _all(
            *(run("darcy-64", operator) for operator in LOW),
            # Paper: four layers in the text, the parameters of six in the table.
            run("darcy-64", "GalerkinTransformer", variant="layers-6", n_layers=6),
        ),
    ),
    Exhibit(
        "Table 2d_median_errors_high, Figures superresolution_lognormal (right) and FANO_lognormal_samples",
        _all(*(run("darcy-416", operator) for operator in HIGH)),
    ),
    Exhibit(
        "Table 2d_median_errors_high, Figures superresolution_piecewise and FANO_piecewise_samples",
        _all(*(run("piecewise-416", operator) for operator in HIGH)),
    ),
    Exhibit(
        "Table 2d_median_errors_high, Figures superresolution_KF and FANO_NS_samples",
        _all(*(run("kolmogorov-416", operator) for operator in HIGH)),
    ),
    Exhibit(
        "Figures FANO_NS_samples_smoothing and superresolution_KF_patching",
        _all(
            run("kolmogorov-416", "FANO", variant="smoothing", last=[64, "periodic"]),
            run("kolmogorov-416", "FANO", variant="extension", basis="extended-fourier"),
        ),
    ),
    Exhibit(
        "Figures parameter_accuracy and evaluation_cost_accuracy, Darcy flow; width 128 is above",
        _all(*(run("piecewise-416", operator, width) for operator in HIGH for width in WIDTHS[:-1])),
    ),
    Exhibit(
        "Figures parameter_accuracy and evaluation_cost_accuracy, Kolmogorov flow; width 128 is above",
        _all(*(run("kolmogorov-416", operator, width) for operator in HIGH for width in WIDTHS[:-1])),
    ),
)

EXPERIMENTS = _all(*(exhibit.runs for exhibit in EXHIBITS))
