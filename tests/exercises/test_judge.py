"""Judges accept a right value in any form, and show the first place that is wrong."""

import pytest
import torch

from labkit.exercises.describe import Answers
from labkit.exercises.judge import close, like_solution, show

ONE, TWO = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])


def say(found, expected, **options):
    """What is said of these answers of the ranks, where the solution gives `expected`."""
    return like_solution(**options)(Answers([()] * len(found), found, expected))


@pytest.mark.parametrize("found", [ONE + TWO, [11, 22, 33], [11.0, 22.0, 33.0 + 1e-6]])
def test_right_in_any_form(found):
    assert say([found, ONE + TWO], [ONE + TWO] * 2) == ""


@pytest.mark.parametrize("found", [2, 2.0, torch.tensor(2), torch.tensor([2.0]), [2], torch.tensor([[2]])])
def test_one_number_is_one_number(found):
    assert close(found, 2.0)


@pytest.mark.parametrize("found", [None, "2", True, float("nan"), [2, 2], object()])
def test_what_is_not_that_number(found):
    assert not close(found, 2.0)


def test_of_rank_0_alone_the_others_may_return_anything():
    right = [ONE + TWO, None]
    assert [say([ONE + TWO, other], right, only_rank_0=True) for other in (None, TWO, "no")] == [""] * 3
    assert say([ONE, ONE + TWO], right, only_rank_0=True).startswith("rank 0 is wrong")


def test_shapes_must_agree():
    assert not close(torch.ones(6), torch.ones(2, 3)) and not close(torch.ones(2), torch.ones(3))
    assert "shape [2, 3]" in show(torch.ones(2, 3))


def test_only_the_same_is_close_to_what_is_not_finite():
    inf, nan = float("inf"), float("nan")
    assert close(inf, inf) and close([nan, 1.0], [nan, 1.0])
    assert not close(1.0, inf) and not close(-inf, inf) and not close(1.0, nan) and not close(inf, 1.0)


def test_it_names_the_wrong_rank_what_was_expected_and_what_it_got():
    assert say([ONE + TWO, TWO], [ONE + TWO] * 2).splitlines() == [
        "rank 1 is wrong",
        "  rank 1 expected [11, 22, 33]",
        "  rank 1 got      [10, 20, 30]",
    ]
    assert say([None, None], [ONE] * 2).endswith("a function without `return` returns None.")


@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_is_wrong_by_one_factor_is_told(size):
    right = [torch.randn(7) for _ in range(size)]
    assert f"That is {size} times too much" in say([size * x for x in right], right)
    assert f"That is {size} times too little" in say([x / size for x in right], right)
    for other in ([x + 1 for x in right], [x / 0 for x in right]):
        assert "times too" not in say(other, right)
    assert "times too" not in say([3] * size, [6] * size)


def test_a_long_matrix_is_shown_from_its_first_wrong_element_on():
    right = torch.arange(1.0, 41).reshape(10, 4)
    found = right.clone()
    found[5, 1] += 1
    said = say([found], [right])
    assert "expected [22, 23, 24, 25, 26, 27, ... of 40] of shape [10, 4] (from element 21 on)" in said


def test_a_long_vector_is_shown_from_its_first_wrong_element_on():
    found = torch.zeros(100)
    found[40] = 7
    said = say([found], [torch.zeros(100)])
    assert "[0, 0, 0, 0, 0, 0, ... of 100] (from element 40 on)" in said and "[7, 0, 0, 0, 0, 0" in said


@pytest.mark.parametrize(
    ("right", "found", "shown"),
    [
        ({"sum": [1, 2], "name": "ring"}, {"sum": [1, 2], "name": "tree"}, "expected 'ring' (name)"),
        ([1, "a", [2.0, ONE]], [1, "a", [2.0, TWO]], "expected [1, 2, 3] (in place 2) (in place 1)"),
        ({"sum": ONE.double()}, {"sum": ONE}, "the numbers are float32, and float64 was asked for"),
    ],
)
def test_of_several_things_the_first_that_is_wrong_is_shown(right, found, shown):
    assert shown in say([found], [right])
