"""How often each kind of fault was tried, printed at the end of `make test-faults`."""

from collections import Counter

import pytest


@pytest.fixture
def count(record_property):
    """Note how many faults of a kind a test has survived."""
    return lambda kind, number: record_property("faults", (kind, number))


def pytest_terminal_summary(terminalreporter):
    """One line for each kind; what failed is not among them."""
    found = Counter()
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            if name == "faults":
                kind, number = value
                found[kind] += number
    if terminalreporter.config.getoption("markexpr") == EVERY:
        for kind, number in sorted(found.items()):
            terminalreporter.write_line(f"faults: {number:6d}  {kind}")


EVERY = "faults or not slow"  # as make test-faults asks
