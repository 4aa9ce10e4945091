"""What the tests of training share."""

import pytest

from operformer.training import status


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when told to."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(status, "time", clock)
    return clock
