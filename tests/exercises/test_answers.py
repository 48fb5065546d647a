"""Wrong answers get the sentence that helps, right ones pass in any style; on real ranks."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from labkit.exercises import mistake
from labkit.exercises.catalogue import LESSONS, exercise_named
from labkit.exercises.grade import grade
from tests.conftest import in_tiers
from tests.exercises.cheats import CHEATS
from tests.seed import SEED

TABLES = [
    import_module(f"tests.exercises.{p.stem}") for p in sorted(Path(__file__).parent.glob("answers_*.py"))
]
RIGHT = {name: answers for table in TABLES for name, answers in table.RIGHT.items()}
EXERCISES = {exercise.name: exercise for lesson in LESSONS for exercise in lesson.exercises}
IDS = {
    exercise.name: f"{lesson.number}_{exercise.name}" for lesson in LESSONS for exercise in lesson.exercises
}


def each_of(kind, answers):
    """Every answer of a kind to every exercise, by place or name; and how its test is called."""
    pairs = [(name, which) for name in EXERCISES for which in answers(name)]
    return pairs, lambda name, which: f"{IDS[name]}: {kind} {which}"


def cheats(name):
    return [kind for kind, cheat in CHEATS.items() if cheat.fits(EXERCISES[name])]


RIGHT_ONES, right = each_of("right", lambda name: range(len(RIGHT.get(name, ()))))
WRONG_ONES, wrong = each_of("wrong", lambda name: range(len(EXERCISES[name].wrong)))
CHEATING, cheat = each_of("cheat", cheats)


@pytest.fixture(scope="module")
def verdict(labs):
    """`verdict(name, source)`: what a learner is told whose cell this is; None: no cell was run."""
    lab = labs(4)

    def verdict(name: str, source: str | None):
        exercise = exercise_named(name)
        lab[:].execute(f"globals().pop({name!r}, None)", block=True)
        for used in exercise.uses:
            module, _, name_there = f"labkit.algorithms.{used}".rpartition(".")
            lab[:].execute(f"from {module} import {name_there}", block=True)
        if source is not None:
            lab[:].execute(source, silent=False, block=True)
        return grade(lab, exercise, SEED)

    return verdict


def why(told) -> str:
    """What a failing test says: the verdict, and how to draw the same arguments once more."""
    again = "" if told.seed is None else f"\nagain with the same draw: LABKIT_TEST_SEED={told.seed}"
    return f"the learner is told: {told.text}{again}"


@pytest.mark.parametrize("name", in_tiers(EXERCISES, 10, 10, IDS.get))
def test_before_anything_is_written(verdict, name):
    told = verdict(name, None)
    assert not told.solved and told.text.startswith(
        f"not solved yet: there is no function {name} on ranks 0-3"
    )
    exercise = EXERCISES[name]
    told = verdict(name, exercise.stub)
    begin = (
        f"{name} is still as the lesson gave it" if exercise.whole else f"write {exercise.call} in the cell"
    )
    assert not told.solved and told.text.startswith(f"not solved yet: {begin}")
    assert f'labkit.hint("{name}")' in told.text


@pytest.mark.parametrize("name", in_tiers(EXERCISES, 20, 20, IDS.get))
def test_the_solution_passes(verdict, name):
    told = verdict(name, EXERCISES[name].solution)
    assert told.solved, why(told)
    assert told.text.startswith(f"solved: {name} is right on every rank")


def refused(verdict, name, source, *says):
    """The answer is refused in one of these sentences; the mistake is called alike whatever was drawn."""
    told = verdict(name, source)
    assert not told.solved, f"{name}: this wrong answer passes:\n{source}\n{why(told)}"
    assert any(sentence in told.text for sentence in says), f"{name}: not told {says}\n{source}\n{why(told)}"
    called = mistake.name(told.text)
    assert called and not re.search(r"\d", re.sub("`.*?`", "", called)), f"what is drawn is in {called!r}"


@pytest.mark.parametrize(("name", "number"), in_tiers(RIGHT_ONES, 10, 15, right))
def test_another_right_answer_passes(verdict, name, number):
    told = verdict(name, EXERCISES[name].answer_of(RIGHT[name][number]))
    assert told.solved, why(told)


@pytest.mark.parametrize(("name", "number"), in_tiers(WRONG_ONES, 20, 40, wrong))
def test_a_known_mistake_is_named(verdict, name, number):
    exercise = EXERCISES[name]
    wrong = exercise.wrong[number]
    refused(verdict, name, exercise.answer_of(wrong), wrong.says)


@pytest.mark.parametrize(("name", "kind"), in_tiers(CHEATING, 10, 15, cheat))
def test_a_cheat_is_refused(verdict, name, kind):
    refused(verdict, name, CHEATS[kind].of(EXERCISES[name]), *CHEATS[kind].says)


@pytest.mark.parametrize("name", EXERCISES, ids=IDS.get)
def test_there_are_enough_of_either(name):
    assert len(EXERCISES[name].wrong) >= 3 and len(RIGHT[name]) >= 2


def test_every_answer_is_one_to_an_exercise():
    assert RIGHT.keys() <= EXERCISES.keys()


def test_the_lab_is_usable_after_all_of_it(labs, ask):
    assert ask(labs(4)[:], "x.item()", "x = torch.ones(1)\ndist.all_reduce(x)") == [4.0] * 4
