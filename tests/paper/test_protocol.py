"""Protocols: what each of them allows and forbids, change by change."""

import pytest

from operformer.errors import UsageError
from paper.lookup import find_run
from paper.protocol import check_protocol

# A change of the catalogue's darcy-64-tno, and which protocols allow it.
CHANGES = {
    "training.epochs=7": "paper best",
    "training.optimizer=muon": "paper best",
    "training.schedule=cosine": "paper best",
    "training.averages=bfloat16": "paper best",
    "training.ema=0.99": "paper best",
    "training.seed=3": "paper best",
    "data.folder=somewhere": "paper best",
    "operator.sources=4096": "best",
    "operator.n_heads=4": "best",
    "training.augment=true": "best",
    "data.coarser=[32]": "best",
    "data.train=3601": "",
    "data.validation=100": "",
    "data.test=100": "",
    "data.seed=1": "",
    "data.resolution=63": "",
    "problem.tau=3.0": "",
    "problem.coefficient=piecewise": "",
    "problem.name=Kolmogorov": "",
}


@pytest.mark.parametrize("protocol", ["paper", "best"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_protocol_allows(change, protocol):
    experiment = find_run("darcy-64-tno", "paper", [change])
    if protocol in CHANGES[change].split():
        assert list(check_protocol(experiment, protocol)) == [change.split("=")[0]]
        return
    with pytest.raises(UsageError, match=f"darcy-64-tno does not follow the protocol {protocol}: ") as caught:
        check_protocol(experiment, protocol)
    assert change.split(".")[0] in str(caught.value)


def test_settings_that_are_the_defaults_are_no_change():
    experiment = find_run("darcy-64-tno", "paper", ["operator.initial_channels=0"])
    assert check_protocol(experiment, "paper") == {}
    assert check_protocol(find_run("darcy-64-tno", "paper"), "best") == {}


def test_smoke_scale_and_other_names_are_refused():
    with pytest.raises(UsageError, match=r"data.resolution is 24 where the catalogue has 64"):
        check_protocol(find_run("darcy-64-tno"), "best")
    with pytest.raises(UsageError, match="did you mean darcy-64-tno"):
        check_protocol(find_run("darcy-64-tno", "paper", ["name=darcy-64-tnoo"]), "paper")
    with pytest.raises(UsageError, match="is no run of the paper"):
        check_protocol(find_run("darcy-li-85", protocol="best"), "paper")
