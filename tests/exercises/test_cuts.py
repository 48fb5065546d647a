"""A cut that a learner returned is judged without ranks, for any number of stages."""

import pytest

from labkit.exercises.lessons.cuts import equal, fullest, least, wrong_cut
from labkit.exercises.lessons.lesson_15 import CUT_FOR_MEMORY

SIZES = [9, 1, 1, 1, 4, 4, 2]  # MB


@pytest.mark.parametrize(("stages", "best"), [(1, 22), (2, 11), (3, 9), (4, 9), (7, 9)])
def test_no_cut_holds_less_than_the_best(stages, best):
    assert least(SIZES, stages) == best
    assert fullest(equal(len(SIZES), stages), SIZES) >= best


@pytest.mark.parametrize("stages", range(1, 8))
def test_an_equal_cut_is_equal(stages):
    assert sum(equal(7, stages)) == 7
    assert max(equal(7, stages)) - min(equal(7, stages)) <= 1


@pytest.mark.parametrize("stages", range(1, 8))
def test_the_solution_is_right_and_a_stage_may_stay_empty(stages):
    found = {}
    exec(CUT_FOR_MEMORY.solution, found)
    cut = found["cut_for_memory"](SIZES, stages)
    assert wrong_cut(cut, SIZES, stages) == ""
    assert wrong_cut([*cut, 0], SIZES, stages + 1) == "" or least(SIZES, stages + 1) < fullest(cut, SIZES)


def test_an_equal_cut_is_told_what_it_overlooked():
    assert wrong_cut([2, 2, 3], SIZES, 3) == "The fullest rank holds 10 MB; 9 MB are enough." + (
        " Equal numbers of layers are not equal numbers of bytes."
    )
    assert wrong_cut([3, 2, 2], SIZES, 3) == "The fullest rank holds 11 MB; 9 MB are enough."


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (None, "Nothing came back"),
        ((3, 4), "A list was expected"),
        ([3.0, 4.0], "A list was expected"),
        ([-1, 8], "A list was expected"),
        ([True, 6], "A list was expected"),
        ([7], "There are 2 ranks, and 1 numbers."),
        ([3, 3], "There are 7 layers, and the numbers add up to 6."),
    ],
)
def test_what_is_no_cut_is_said(cut, said):
    assert wrong_cut(cut, SIZES, 2).startswith(said)
