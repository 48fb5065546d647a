"""What is handed in: a learner's answers, nothing else of theirs; and what a stranger's file may hold."""

import json
from pathlib import Path

import pytest

from labkit import LabError
from labkit.commands.__main__ import main
from labkit.exercises import grade, submission
from labkit.exercises.progress_file import changed

TOLD = f"not solved yet: in a world of 2, ranks 0-1: FileNotFoundError: {Path.home()}/secret.txt"


@pytest.fixture
def answered(progress_folder):
    """A learner who has checked two answers, one of them with nothing to hand in."""
    with changed() as kept:
        kept["predictions"]["turns"] = 3
        kept["answers"]["mean_loss"] = {"source": "def mean_loss(loss): ...", "solved": False, "told": TOLD}
        kept["answers"]["my_sum"] = {"source": "", "solved": True, "told": "solved: ..."}


def test_a_right_answer_is_not_given_up_for_a_wrong_one(monkeypatch):
    for source, solved in (("first", False), ("second", True), ("third", False)):
        monkeypatch.setattr(grade, "in_notebook", lambda name, source=source: source)
        grade._keep("my_sum", grade.Verdict("solved: it is" if solved else "not solved yet: no", solved))
    assert submission.collected("Ada").answers["my_sum"] == submission.Handed("second", True, "solved: it is")


def test_what_is_handed_in_is_read_again(answered, tmp_path, capsys):
    assert main(["submit", "Ada Lovelace", "--into", str(tmp_path)]) == 0
    file = tmp_path / "ada_lovelace.labkit.json"
    assert "1 answers as they were checked last, 0 of them right" in capsys.readouterr().out
    assert file.stat().st_mode & 0o777 == 0o600
    read = submission.read(file)
    assert read == submission.collected("Ada Lovelace")
    assert read.learner == "Ada Lovelace" and read.predictions == {"turns": 3} and "torch" in read.versions
    assert set(read.answers) == {"mean_loss"}


def test_the_name_is_all_it_tells_of_the_learner(answered, tmp_path, monkeypatch):
    text = submission.write(submission.collected("Ada"), tmp_path).read_text()
    assert "~/secret.txt" in text and str(Path.home()) not in text and str(tmp_path) not in text


def test_a_second_time_replaces_the_first_and_nobody_else_s(answered, tmp_path):
    for _ in range(2):
        submission.write(submission.collected("Ada"), tmp_path)
    with pytest.raises(LabError, match="somebody else's"):
        submission.write(submission.collected("ADA"), tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 1


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\nb", "\x1b[31m"])
def test_no_name(answered, name):
    with pytest.raises(LabError, match="printable"):
        submission.collected(name)


def test_nothing_checked_yet(tmp_path, capsys):
    assert main(["submit", "Ada", "--into", str(tmp_path)]) == 1
    assert "none has been checked yet" in capsys.readouterr().err


GOOD = {"format": 1, "learner": "Ada", "answers": {"my_sum": {"source": "", "solved": False, "told": ""}}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        json.dumps(GOOD | {"format": 2}),
        json.dumps(GOOD | {"learner": ["Ada"]}),
        json.dumps(GOOD | {"answers": {"my_sum": {"source": 1, "solved": True, "told": ""}}}),
        json.dumps(GOOD | {"answers": ["my_sum"]}),
        json.dumps(GOOD | {"predictions": 3}),
        json.dumps(GOOD | {"learner": "x" * submission.LONGEST}),
        json.dumps(GOOD | {"learner": "\ud800"}),
        json.dumps(GOOD | {"answers": {"my_sum": {"source": "\ud800", "solved": True, "told": ""}}}),
        "\udcff",
    ],
    ids=range(12),
)
def test_a_file_that_is_no_submission(tmp_path, text):
    file = tmp_path / f"ada{submission.ENDING}"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(LabError, match="cannot be read"):
        submission.read(file)


def test_solved_is_true_or_not(tmp_path):
    file = tmp_path / f"ada{submission.ENDING}"
    told = {"source": "", "solved": "yes", "told": ""}
    file.write_text(json.dumps(GOOD | {"answers": {"my_sum": told}}))
    assert submission.read(file).answers["my_sum"].solved is False
