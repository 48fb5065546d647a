"""From what learners share to a row for each exercise; a learner's file is a stranger's."""

import json
import os

import pytest

from labkit.commands.classroom import tally
from labkit.exercises.catalogue import LESSONS
from labkit.exercises.sharing import FILE

FIRST, SECOND, *_ = (exercise.name for lesson in LESSONS for exercise in lesson.exercises)


@pytest.fixture
def shares(tmp_path):
    """`shares(name, text or exercises)` puts a learner's file into a class's folder, which it returns."""

    def shares(name: str, told) -> object:
        (tmp_path / name).mkdir()
        text = told if isinstance(told, str) else json.dumps({"exercises": told})
        (tmp_path / name / FILE).write_text(text)
        return tmp_path

    return shares


def test_a_row_says_how_many_tried_and_solved_and_what_the_mistakes_are(shares):
    shares("ada", {FIRST: "", SECOND: "deadlock"})
    shares("grace", {FIRST: "deadlock"})
    shares("alan", {FIRST: "deadlock"})
    folder = shares("edsger", {FIRST: "over budget: messages"})
    (first, second) = tally.rows(tally.shared_in(folder))
    assert (first.exercise, first.tried, first.solved) == (FIRST, 4, 1)
    assert first.mistakes == (("deadlock", 2), ("over budget: messages", 1))
    assert (second.tried, second.solved, second.mistakes) == (1, 0, (("deadlock", 1),))
    page = tally.page(folder)
    assert page["learners"] == 4 and page["next"]["exercise"] == FIRST and page["next"]["learners"] == 2


def test_one_learner_alone_is_not_pointed_at(shares):
    assert tally.page(shares("ada", {FIRST: "deadlock"}))["next"] is None


def test_an_empty_class_is_no_error(tmp_path):
    assert tally.page(tmp_path) == {"learners": 0, "rows": [], "next": None}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"exercises": 3}', '{"exercises": ["a"]}', '{"other": {}}', "[" * 100_000, "\0\xff"],
    ids=["empty", "torn", "a list", "a number", "names alone", "other", "deep", "no text"],
)
def test_a_file_that_is_none_costs_its_owner_alone(shares, text):
    shares("mallory", text)
    assert tally.page(shares("ada", {FIRST: ""}))["learners"] == 1


def test_names_are_of_the_course_and_mistakes_are_short(shares):
    folder = shares("mallory", {"no_such_exercise": "", FIRST: "x" * 10_000})
    (row,) = tally.rows(tally.shared_in(folder))
    assert row.exercise == FIRST and len(row.mistakes[0][0]) == tally.NAME


def test_a_link_to_somebody_elses_file_and_a_pipe_are_not_read(shares, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"exercises": {FIRST: "the secret"}}))
    folder = shares("ada", {FIRST: ""})
    (tmp_path / "mallory").mkdir()
    (tmp_path / "mallory" / FILE).symlink_to(secret)
    (tmp_path / "oscar").mkdir()
    os.mkfifo(tmp_path / "oscar" / FILE)
    assert tally.page(folder)["learners"] == 1
