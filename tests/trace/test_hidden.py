"""How much of the communication was hidden, in traces whose answer can be seen."""

import pytest

from labkit.trace import COMPUTE, Event, Trace


def compute(start, end, rank=0):
    return Event(rank, COMPUTE, start, end)


def sums(start, end, rank=0, waiting=0.0):
    return Event(rank, "all_reduce", start, end, (0, 1), 8, waiting=waiting)


@pytest.mark.parametrize(
    "share, events",
    [
        (0.0, ()),
        (0.0, [compute(0, 2)]),
        (0.0, [compute(0, 2), sums(2, 3)]),
        (1.0, [compute(0, 2), sums(1, 2)]),
        (0.5, [compute(0, 2), sums(1, 3)]),
        (0.5, [compute(0, 2), sums(0, 3, waiting=1)]),  # what is waited for is not under way
        (0.5, [compute(0, 2), sums(1, 3), sums(1, 3)]),  # at one time two are no more than one
        (0.5, [compute(0, 1), compute(1, 2), sums(0, 4)]),
        (0.75, [compute(0, 2), sums(1, 3), compute(0, 2, 1), sums(0, 2, 1)]),
        (0.0, [compute(0, 2), sums(0, 2, 1)]),  # another rank computes
    ],
)
def test_the_share_that_is_hidden(share, events):
    assert Trace(2, tuple(events)).overlap() == share
