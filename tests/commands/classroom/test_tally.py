"""From what learners share to a row for each exercise; a learner's file is a stranger's."""

import json
import os

import pytest

from labkit.commands import classroom
from labkit.commands.classroom import tally
from labkit.exercises import mistake
from labkit.exercises.catalogue import LESSONS
from labkit.exercises.known import is_known
from labkit.exercises.sharing import FILE
from tests import accounts

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
    folder = shares("edsger", {FIRST: "over budget: messages in all"})
    (first, second) = tally.rows(tally.shared_in(folder))
    assert (first.exercise, first.tried, first.solved) == (FIRST, 4, 1)
    assert first.mistakes == (("deadlock", 2), ("over budget: messages in all", 1))
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
    assert row.exercise == FIRST and row.mistakes == ((tally.ANOTHER, 1),)


INVENTED = [
    "solved",
    "our teacher is wrong",
    "=HYPERLINK()",
    "deadlock ",
    "\x1b[2J",
    "over budget: you",
    "Solved",
    "\u2026",
    "changes `you`, which is its caller's",
    "That is",
    "TeacherError",
    "never waits for its teacher",
]


def test_only_names_of_labkit_s_own_are_on_the_wall(shares):
    """Whoever shares writes the file, and can call an error of their own anything."""
    known = [
        "deadlock",
        "ValueError",
        "not written",
        "over budget: messages in all",
        "not tried in every world",
    ]
    for number, name in enumerate([*INVENTED, *known, *known]):
        folder = shares(f"learner{number}", {FIRST: name})
    (row,) = tally.rows(tally.shared_in(folder))
    assert dict(row.mistakes) == {tally.ANOTHER: len(INVENTED)} | dict.fromkeys(known, 2)


@pytest.mark.parametrize(
    "exercise", [e for lesson in LESSONS for e in lesson.exercises], ids=lambda e: e.name
)
def test_what_an_exercise_says_of_a_known_mistake_is_known(exercise):
    for made in (*getattr(exercise.judge, "mistakes", ()), *(w for w in exercise.wrong if w.says)):
        told = f"not solved yet: in a world of 2, ranks 0-1 are wrong\n  rank 0 expected 2\n{made.says}"
        assert is_known(mistake.name(told), exercise.name)


@accounts.as_root
def test_an_account_is_one_learner_whatever_folders_it_makes(shares, tmp_path):
    """Each is counted in the folder of its name, and nobody in another's."""
    made = {"nobody": 65534, "mallory2": 65534, "daemon": 65534, "bin": 2, "ada": 0, "bob": 0}
    for name, owner in made.items():
        folder = shares(name, {FIRST: "deadlock"})
        for path in (folder / name, folder / name / FILE):
            os.chown(path, owner, owner)
    assert tally.page(folder)["learners"] == 4  # nobody, bin, and whoever looks, twice


def test_the_token_is_in_no_command_line(tmp_path, monkeypatch):
    """All users of a machine read the arguments of all programs: the browser gets a file that is its
    user's."""
    opened = []
    monkeypatch.setattr(classroom, "RUNTIME", tmp_path / "runtime")
    monkeypatch.setattr(classroom.webbrowser, "open", opened.append)
    classroom._open("http://127.0.0.1:1/?token=secret")
    (file,) = (tmp_path / "runtime").iterdir()
    assert opened == [file.as_uri()] and "secret" not in opened[0]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert 'url=http://127.0.0.1:1/?token=secret"' in file.read_text()


def test_a_link_to_somebody_elses_file_and_a_pipe_are_not_read(shares, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"exercises": {FIRST: "the secret"}}))
    folder = shares("ada", {FIRST: ""})
    (tmp_path / "mallory").mkdir()
    (tmp_path / "mallory" / FILE).symlink_to(secret)
    (tmp_path / "oscar").mkdir()
    os.mkfifo(tmp_path / "oscar" / FILE)
    assert tally.page(folder)["learners"] == 1
