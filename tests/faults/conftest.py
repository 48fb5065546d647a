"""What a verdict may take, and the options that say how strictly: `make faults` gives --in-time."""

import pytest

HANGS = 30.0
"""Seconds beyond a limit after which a verdict counts as missing, on a machine that has much else to do."""


def pytest_addoption(parser):
    parser.addoption("--write", action="store_true", help="renew tests/faults/FAULTS.md")
    parser.addoption("--in-time", action="store_true", help="hold verdicts to their limits; run nothing else")


@pytest.fixture
def in_time(pytestconfig):
    """`in_time(seconds, limit)`: whether a verdict came in time.

    The limits are those of a machine that does nothing else, and are kept where that is the case: when the
    tables are written, and in `make faults`. Elsewhere two more lanes of tests run, and they only tell a
    verdict from none.
    """
    alone = any(pytestconfig.getoption(option, False) for option in ("--write", "--in-time"))
    return lambda seconds, limit: seconds < limit + (0.0 if alone else HANGS)
