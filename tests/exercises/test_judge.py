"""Judges accept a right value in any form, and show the first place that is wrong."""

import time
from itertools import takewhile

import pytest
import torch

from labkit.exercises.catalogue import LESSONS
from labkit.exercises.describe import Answers
from labkit.exercises.judge import (
    Comparison,
    Mistake,
    close,
    compare,
    compare_rank_0,
    everywhere,
    like_solution,
    show,
)

SUM = compare(lambda arguments: [sum(a for (a,) in arguments)] * len(arguments),
              Mistake("That is the rank's own.", lambda arguments: [a for (a,) in arguments]))  # fmt: skip
ONE, TWO = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])


def say(*found):
    return SUM(Answers([(ONE,), (TWO,)], list(found)))


@pytest.mark.parametrize("found", [ONE + TWO, (ONE + TWO).double(), [11, 22, 33], [11.0, 22.0, 33.0 + 1e-6]])
def test_right_in_any_form(found):
    assert say(found, ONE + TWO) == ""


@pytest.mark.parametrize("found", [2, 2.0, torch.tensor(2), torch.tensor([2.0]), [2], torch.tensor([[2]])])
def test_one_number_is_one_number(found):
    assert close(found, 2.0)


@pytest.mark.parametrize("found", [None, "2", True, float("nan"), [2, 2], object()])
def test_what_is_not_that_number(found):
    assert not close(found, 2.0)


def test_of_rank_0_alone_the_others_may_return_anything():
    judge = compare_rank_0(
        lambda arguments: [sum(a for (a,) in arguments)],
        Mistake("That is its own.", lambda arguments: [arguments[0][0]]),
    )
    assert [judge(Answers([(ONE,), (TWO,)], [ONE + TWO, other])) for other in (None, TWO, "no")] == [""] * 3
    said = judge(Answers([(ONE,), (TWO,)], [ONE, ONE + TWO]))
    assert said.startswith("rank 0 is wrong") and said.endswith("That is its own.")


COMPARED = [e for lesson in LESSONS for e in lesson.exercises if isinstance(e.judge, Comparison)]


@pytest.mark.slow
@pytest.mark.parametrize("exercise", COMPARED, ids=lambda exercise: exercise.name)
def test_no_draw_makes_a_known_mistake_right(exercise):
    """Whatever is drawn, it shows in one of the worlds. Of what takes long fewer draws are tried."""
    until = time.monotonic() + 1
    for seed in takewhile(lambda seed: seed == 0 or time.monotonic() < until, range(20)):
        unseen = {mistake.says for mistake in exercise.judge.mistakes}
        for size in exercise.sizes:
            given = exercise.given(torch.Generator().manual_seed(seed + size), size)
            for mistake in exercise.judge.mistakes:
                if mistake.says in unseen and exercise.judge(Answers(given, mistake.values(given))):
                    unseen.remove(mistake.says)
        assert not unseen, f"{exercise.name} with seed {seed}"


def test_shapes_must_agree():
    assert not close(torch.ones(6), torch.ones(2, 3)) and not close(torch.ones(2), torch.ones(3))
    assert "shape [2, 3]" in show(torch.ones(2, 3))


def test_only_the_same_is_close_to_what_is_not_finite():
    inf, nan = float("inf"), float("nan")
    assert close(inf, inf) and close([nan, 1.0], [nan, 1.0])
    assert not close(1.0, inf) and not close(-inf, inf) and not close(1.0, nan) and not close(inf, 1.0)


def test_it_names_the_wrong_rank_what_was_expected_and_what_it_got():
    assert say(ONE + TWO, TWO).splitlines() == [
        "rank 1 is wrong",
        "  rank 1 expected [11, 22, 33]",
        "  rank 1 got      [10, 20, 30]",
        "That is the rank's own.",
    ]
    assert say(None, None).endswith("a function without `return` returns None.")


@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_is_wrong_by_one_factor_is_told(size):
    right = [torch.randn(7) for _ in range(size)]
    judge = compare(lambda arguments: right)
    for found, says in (
        ([size * x for x in right], f"That is {size} times too much"),
        ([x / size for x in right], f"That is {size} times too little"),
    ):
        assert says in judge(Answers([()] * size, found))
    assert "times too" not in judge(Answers([()] * size, [x + 1 for x in right]))
    infinite = [x / 0 for x in right]
    assert "times too" not in judge(Answers([()] * size, infinite))
    counts = compare(everywhere(lambda arguments: 6))
    assert "times too" not in counts(Answers([()] * size, [3] * size))


def test_a_long_matrix_is_shown_from_its_first_wrong_element_on():
    right = torch.arange(1.0, 41).reshape(10, 4)
    found = right.clone()
    found[5, 1] += 1
    said = compare(lambda arguments: [right])(Answers([()], [found]))
    assert "expected [22, 23, 24, 25, 26, 27, ... of 40] of shape [10, 4] (from element 21 on)" in said


def test_a_long_vector_is_shown_from_its_first_wrong_element_on():
    judge = compare(lambda arguments: [torch.zeros(100)])
    found = torch.zeros(100)
    found[40] = 7
    told = judge(Answers([(None,)], [found]))
    assert "[0, 0, 0, 0, 0, 0, ... of 100] (from element 40 on)" in told and "[7, 0, 0, 0, 0, 0" in told


@pytest.mark.parametrize(
    ("right", "found", "shown"),
    [
        ({"sum": [1, 2], "name": "ring"}, {"sum": [1, 2], "name": "tree"}, "expected 'ring' (name)"),
        ([1, "a", [2.0, ONE]], [1, "a", [2.0, TWO]], "expected [1, 2, 3] (in place 2) (in place 1)"),
        ({"sum": ONE.double()}, {"sum": ONE}, "the numbers are float32, and float64 was asked for"),
    ],
)
def test_of_several_things_the_first_that_is_wrong_is_shown(right, found, shown):
    assert shown in like_solution()(Answers([()], [found], [right]))
