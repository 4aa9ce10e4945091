"""More than a hundred trainings that are killed and go on: each ends with the bits of one that was left alone."""

import os
import signal
import time

import pytest
from children import MAKE, draws, finish, kill_self_at, record, start, wait

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

KILLS = 120
OPERATIONS = 40  # file operations of a save and of the dropping of an old one, about


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The record of each training that nobody kills, and how long it takes."""
    found = {}
    for kind in MAKE:
        for world in (1, 2):
            folder = tmp_path_factory.mktemp("undisturbed") / f"{kind}-{world}"
            started = time.monotonic()
            finish(kind, folder, world)
            found[kind, world] = (record(folder), time.monotonic() - started)
    return found


def test_killed_trainings_go_on_to_the_same_bits(undisturbed, tmp_path, count):
    random = draws(2025)
    counts = {"kills": 0, "inside a save": 0, "with two ranks": 0, "before the first checkpoint": 0, "identical": 0}
    for number in range(KILLS):
        kind, world = list(MAKE)[number % 3], 2 if number % 4 == 3 else 1
        inside = number % 3 == (number // 3) % 3  # a third, of all kinds
        folder = tmp_path / f"{number}-{kind}"
        expected, seconds = undisturbed[kind, world]
        while True:  # until the signal meets a living process
            if inside:
                operation = random.randrange(1, 6 * OPERATIONS)
                processes = start(kind, folder, world, before=lambda at=operation: kill_self_at(at))
            else:
                processes = start(kind, folder, world)
                time.sleep(random.uniform(0.05, 0.95) * seconds)
                os.kill(random.choice(processes), signal.SIGKILL)
            if -signal.SIGKILL in [wait(process) for process in processes]:
                break
        counts["kills"] += 1
        counts["inside a save"] += inside
        counts["with two ranks"] += world == 2
        counts["before the first checkpoint"] += not list(folder.glob("checkpoints/epoch-*"))
        finish(kind, folder, world)
        assert record(folder) == expected, f"kill {number} of {kind} with {world} ranks changed the training"
        assert not [path for path in folder.rglob(".*") if path.name != ".lock"]
        counts["identical"] += 1
    count("trainings killed that resumed to the same bits", counts["identical"])
    count("of them inside a save", counts["inside a save"])
    count("of them with two processes", counts["with two ranks"])
    assert counts["identical"] == counts["kills"] == KILLS
    assert counts["inside a save"] >= KILLS // 3
    assert counts["with two ranks"] == KILLS // 4
