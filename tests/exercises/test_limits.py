"""Memory and time of a learner's function are measured on the ranks, whatever the world size."""

import pytest

from labkit.exercises.measure import MEASURES
from labkit.trace import COMPUTE, Event, Trace

MEASURE = """
from labkit.algorithms.memory import Memory
def peak_of(function, *given):
    memory = Memory(given)
    with memory:
        result = function(*given)
    return memory.peak
x = torch.ones(1000, dtype=torch.float64)
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("peak_of(lambda x: x.add_(1), x)", 0),
        ("peak_of(lambda x: x[10:].view(-1, 10), x)", 0),
        ("peak_of(lambda x: x + 1, x)", 8000),
        ("peak_of(lambda x: [x + 1 for _ in range(5)], x)", 40000),
        ("peak_of(lambda x: [(x + 1).sum() for _ in range(5)], x)", 8000 + 5 * 8),
        ("peak_of(lambda x: dist.all_reduce(x.clone()), x)", 8000),
    ],
)
def test_memory_counts_new_tensors_while_they_live(labs, ask, expression, expected):
    assert ask(labs(2)[:], expression, MEASURE) == [expected] * 2


HELD = """
import numpy
from labkit.exercises.held import Held
def peak_of(function):
    with Held() as memory:
        result = function(torch.ones(1000, dtype=torch.float64))
    return memory.peak
before = torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__
"""


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        ("lambda x: x.numpy().copy()", 2),
        ("lambda x: numpy.array(x)", 2),
        ("lambda x: [x.tolist(), x.tolist()]", 3),
        ("lambda x: __import__('pickle').dumps(x)", 2),
        ("lambda x: dist.all_reduce(x)", 1),
    ],
)
def test_what_leaves_torch_counts_for_good(labs, ask, function, copies):
    after = "before == (torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__)"
    assert ask(labs(2)[:], f"[peak_of({function}), {after}]", HELD) == [[8000 * copies, True]] * 2


def test_a_world_is_smaller_and_comes_back(labs, ask):
    code = """
from labkit.exercises.on_rank import world
seen = []
for size in (1, 2, 3):
    with world(size) as member:
        x = torch.ones(1)
        if member:
            dist.all_reduce(x)
            seen.append((dist.get_rank(), dist.get_world_size(), world_size, int(x)))
"""
    found = ask(labs(3)[:], "seen, dist.get_world_size(), world_size", code)
    assert [len(seen) for seen, *_ in found] == [3, 2, 1]
    assert all(
        rank == r and size == named == x
        for r, (seen, *_) in enumerate(found)
        for rank, size, named, x in seen
    )
    assert [after for _, *after in found] == [[3, 3]] * 3


def test_what_a_rank_hands_over_is_counted_on_the_busiest():
    events = [
        Event(0, COMPUTE, 0, 1),
        Event(0, "all_gather", 1, 2, (0, 1), 8),
        Event(1, "all_gather", 1, 2, (0, 1), 8),
        Event(0, "send", 2, 3, (1,), 100),
        Event(1, "recv", 2, 3, (0,), 100),
    ]
    assert MEASURES["handed"].of(Trace(2, tuple(events)), []) == 108
