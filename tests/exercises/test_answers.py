"""Wrong answers get the sentence that helps, right ones pass in any style; on real ranks."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from labkit.exercises import mistake
from labkit.exercises.catalogue import LESSONS, exercise_named
from labkit.exercises.grade import grade
from tests.conftest import drawn
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
each_exercise = pytest.mark.parametrize("name", EXERCISES, ids=IDS.get)


def each_exercise_in_turn(test, one_in):
    """Every exercise; one in so many, drawn by the test's name, in `make test`; the others are slow."""
    by_day = drawn(test, list(EXERCISES), len(EXERCISES) // one_in)
    given = [
        pytest.param(name, id=label, marks=[pytest.mark.slow] * (name not in by_day))
        for name, label in IDS.items()
    ]
    return pytest.mark.parametrize("name", given)


def each_of(kind, answers, one_in, at_once):
    """The exercises' answers, by place or name.

    `make test` tries one of one exercise in so many, `make test-all` `at_once` of each, at other places from
    exercise to exercise, and `make nightly` all.
    """
    by_day = drawn(kind, list(EXERCISES), len(EXERCISES) // one_in)
    given = []
    for place, name in enumerate(EXERCISES):
        of_it = list(answers(name))
        for n, which in enumerate(of_it):
            now = (n - place) % len(of_it)
            tier = [] if now == 0 and name in by_day else ["slow" if now < at_once else "nightly"]
            marks = [getattr(pytest.mark, mark) for mark in tier]
            given.append(pytest.param(name, which, id=f"{IDS[name]}: {kind} {which}", marks=marks))
    return given


def cheats(name):
    return [kind for kind, cheat in CHEATS.items() if cheat.fits(EXERCISES[name])]


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


@each_exercise_in_turn("stubs", one_in=4)
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


@each_exercise_in_turn("solutions", one_in=4)
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


@pytest.mark.parametrize(
    ("name", "number"), each_of("right", lambda name: range(len(RIGHT.get(name, ()))), one_in=8, at_once=1)
)
def test_another_right_answer_passes(verdict, name, number):
    told = verdict(name, EXERCISES[name].answer_of(RIGHT[name][number]))
    assert told.solved, why(told)


@pytest.mark.parametrize(
    ("name", "number"), each_of("wrong", lambda name: range(len(EXERCISES[name].wrong)), one_in=4, at_once=2)
)
def test_a_known_mistake_is_named(verdict, name, number):
    exercise = EXERCISES[name]
    wrong = exercise.wrong[number]
    refused(verdict, name, exercise.answer_of(wrong), wrong.says)


@pytest.mark.parametrize(
    ("name", "kind"),
    each_of("cheat", cheats, one_in=8, at_once=1),
)
def test_a_cheat_is_refused(verdict, name, kind):
    refused(verdict, name, CHEATS[kind].of(EXERCISES[name]), *CHEATS[kind].says)


@each_exercise
def test_there_are_enough_of_either(name):
    assert len(EXERCISES[name].wrong) >= 3 and len(RIGHT[name]) >= 2


def test_every_answer_is_one_to_an_exercise():
    assert RIGHT.keys() <= EXERCISES.keys()


def test_the_lab_is_usable_after_all_of_it(labs, ask):
    assert ask(labs(4)[:], "x.item()", "x = torch.ones(1)\ndist.all_reduce(x)") == [4.0] * 4
