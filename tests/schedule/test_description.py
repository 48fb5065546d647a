"""A schedule can be written, joined, compared and printed."""

import pytest

from labkit import LabError
from labkit.algorithms import halving_doubling, ring, tree
from labkit.schedule import Compute, Recv, Schedule, Send, compute, label, table


def test_lists_and_single_operations_stand_for_tuples():
    assert Schedule([[Send(1, 0)], [[Recv(0, 0)]]]) == Schedule((((Send(1, 0),),), ((Recv(0, 0),),)))
    assert hash(ring(3)) == hash(ring(3)) and ring(3) != ring(4)


def test_a_row_per_step_and_a_column_per_rank():
    assert str(tree(3)).splitlines() == [
        "step  rank 0         rank 1         rank 2",
        "   0  add 0 from r1  send 0 to r0   -",
        "   1  add 0 from r2  -              send 0 to r0",
        "   2  send 0 to r2   -              get 0 from r0",
        "   3  send 0 to r1   get 0 from r0  -",
    ]
    assert "send 2-3 to r2; add 0-1 from r2" in str(halving_doubling(4))
    assert table(ring(16), range(2)).count("\n") == 30
    assert repr(ring(4)) == "Schedule(4 ranks, 6 steps, 4 chunks)"


def test_a_training_step_is_a_sum():
    step = compute(4, "forward and backward", 0.1) + ring(4)
    assert step.chunks == 4
    assert all(steps[0] == (Compute("forward and backward", 0.1),) for steps in step.steps)
    assert tuple(steps[1:] for steps in step.steps) == ring(4).steps
    for other in (ring(3), tree(4)):
        with pytest.raises(LabError, match="as many ranks and chunks"):
            ring(4) + other


def test_what_is_no_operation_is_refused():
    with pytest.raises(LabError, match="'send' in it"):
        Schedule([[("send",)]])


def test_labels():
    assert [label(chunk) for chunk in (2, range(0, 4), range(3, 4), "activation 1")] == [
        "chunk 2",
        "chunks 0-3",
        "chunk 3",
        "activation 1",
    ]
