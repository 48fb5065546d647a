"""Slots that a learner returned are judged without ranks, for any number of stages."""

import pytest

from labkit.algorithms import gpipe, one_forward_one_backward
from labkit.exercises.lessons.slots import wrong_slots


@pytest.mark.parametrize("stages", [1, 2, 4, 9])
@pytest.mark.parametrize("microbatches", [1, 3, 16])
def test_the_budgets_are_exact(stages, microbatches):
    most, room = 2 * (microbatches + stages - 1), min(stages, microbatches)
    slots = one_forward_one_backward(stages, microbatches)
    assert wrong_slots(slots, stages, microbatches, room, most) == ""
    assert f"It takes {most} slots" in wrong_slots(slots, stages, microbatches, room, most - 1)
    assert f"has room for {room - 1}" in wrong_slots(slots, stages, microbatches, room - 1, most)


@pytest.mark.parametrize("found", [None, 3, "F0", [None], [["F0", "B0"]], [3, 4]])
def test_what_are_no_slots_is_shown(found):
    assert wrong_slots(found, 2, 1, 1, 4).endswith(f"it is {found!r}.")


def test_there_is_a_list_for_each_stage():
    assert wrong_slots(gpipe(3, 2), 4, 2, 2, 10) == "It has slots for 3 stages, not for 4."
