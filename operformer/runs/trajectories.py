"""Sets of trajectories, whose pairs follow each other: an operator rolled out along those it was not trained on."""

from __future__ import annotations

from math import prod

import torch

from operformer.data.store import StoredPairs
from operformer.evaluation.rollout import Rollout, study_rollout
from operformer.operators import Operator

MOST = 100  # trajectories that are followed
VALUES = 2**27  # of their truth, in memory


def follow(operator: Operator, pairs: StoredPairs, is_periodic: bool) -> Rollout | None:
    """The rollout along the whole trajectories of a set, or of a part of it; None where it has none.

    Times are counted in steps of the file that was imported.
    """
    if pairs.trajectory is None or operator.in_channels != operator.out_channels or pairs.query is not None:
        return None
    per, lead = pairs.trajectory
    begin = -pairs.first % per  # a part may begin inside of one
    starts = list(range(begin, len(pairs) - per + 1, per))[:MOST]
    offsets = range(0, per, lead)
    fitting = max(1, VALUES // (len(offsets) * pairs.channels[1] * prod(pairs.grid.shape)))
    if not starts or pairs.grid.counts is not None:
        return None
    starts = starts[:fitting]
    device = operator.input_mean.device
    u0 = pairs[torch.tensor(starts)].u
    places = torch.tensor([start + offset for start in starts for offset in offsets])
    truth = pairs[places].z.unflatten(0, (len(starts), len(offsets)))
    times = [float(lead * (k + 1)) for k in range(len(offsets))]
    return study_rollout(operator, u0.to(device), truth.to(device), pairs.grid.to(device), times, is_periodic)
