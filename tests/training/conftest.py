"""What the tests of training share."""

import pytest

from operformer.training import progress, status


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when told to."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    for module in (progress, status):
        monkeypatch.setattr(module, "time", clock)
    return clock
