"""Interleaved and zero-bubble schedules: their passes in order, the published bubbles, what they store."""

import pytest

from labkit.algorithms import idle_share, interleaved, one_forward_one_backward, zero_bubble
from labkit.schedule import Backward, BackwardWeight, Forward, pipeline_schedule, stored, violations
from labkit.simulate import Network, simulate

FREE = Network(alpha=0.0, bandwidth=1.0)
shapes = pytest.mark.parametrize(("ranks", "microbatches"), [(1, 2), (2, 2), (2, 6), (3, 3), (4, 8), (4, 12)])


def bubble(schedule):
    """Idle time over work."""
    idle = idle_share(simulate(schedule, FREE, 0))
    return idle / (1 - idle)


@shapes
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_interleaved_divides_the_bubble_by_the_pieces(ranks, microbatches, pieces):
    if ranks == 1 and pieces > 1:
        pytest.skip("one rank would send to itself")
    slots = interleaved(ranks, microbatches, pieces)
    passes = {make(m, p) for make in (Forward, Backward) for m in range(microbatches) for p in range(pieces)}
    assert all(len(own) == len(passes) and set(own) == passes for own in slots)
    schedule = pipeline_schedule(slots, 1 / pieces, 2 / pieces)
    assert violations(schedule) == ()
    assert bubble(schedule) == pytest.approx((ranks - 1) / (pieces * microbatches))


def test_one_piece_is_1f1b():
    assert interleaved(4, 8, 1)[3] == one_forward_one_backward(4, 8)[3]


@shapes
@pytest.mark.parametrize("seconds", [(1, 1, 1), (2, 2, 1), (3, 3, 2)])
def test_zero_bubble_has_the_bubble_and_the_memory_of_zb_h1(ranks, microbatches, seconds):
    slots, (forward, backward, weight) = zero_bubble(ranks, microbatches), seconds
    passes = {make(m) for make in (Forward, Backward, BackwardWeight) for m in range(microbatches)}
    assert all(len(own) == len(passes) and set(own) == passes for own in slots)
    assert all(
        own.index(Backward(m)) < own.index(BackwardWeight(m)) for own in slots for m in range(microbatches)
    )
    schedule = pipeline_schedule(slots, *seconds)
    assert violations(schedule) == ()
    assert all(max(counts) <= ranks for counts in stored(slots))
    if microbatches >= 2 * ranks:  # shorter pipelines never fill
        expected = (ranks - 1) * (forward + backward - weight)
        assert bubble(schedule) * microbatches * sum(seconds) == pytest.approx(expected)


def test_activations_are_stored_until_the_gradient_of_the_weights_is_made():
    assert stored([[Forward(0), Backward(0), Forward(1), BackwardWeight(0)]]) == ((1, 1, 2, 2),)
