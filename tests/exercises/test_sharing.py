"""A learner's progress is the teacher's to see after the learner has said so, and no longer than that."""

import json
import os
import stat

import pytest

from labkit import LabError
from labkit.commands import share
from labkit.exercises import progress_file, sharing
from labkit.exercises.catalogue import LESSONS

SOLVED, WRONG, *_ = (exercise.name for lesson in LESSONS for exercise in lesson.exercises)
TOLD = "not solved yet: in a world of 2, deadlock: rank 0 waits in recv for rank 1, secret_name.py line 3"


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """One who has solved an exercise, has a deadlock in another, and a folder in that of a class."""
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress"))
    mine = tmp_path / "class" / "ada"
    mine.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv(sharing.CLASS, str(mine))
    monkeypatch.setattr(progress_file, "_is_tested", lambda: False)
    with progress_file.changed() as progress:
        progress["exercises"][SOLVED] = True
        progress["answers"][WRONG] = {"source": "def secret_name(): ...", "solved": False, "told": TOLD}
        progress["predictions"]["turns"] = 12345.0
    return mine


def test_nothing_is_shared_by_itself(learner):
    sharing.renew()
    assert sharing.shared() is None and list(learner.iterdir()) == []


def test_what_is_shared_is_the_state_of_each_exercise_and_no_more(learner, capsys):
    assert share.main([]) == 0
    told = (learner / sharing.FILE).read_text()
    assert json.loads(told) == {"exercises": {SOLVED: "", WRONG: "deadlock"}}
    assert str(learner / sharing.FILE) in capsys.readouterr().out, "the learner can look"


def test_it_keeps_up_until_the_learner_says_stop(learner, capsys):
    share.main([])
    with progress_file.changed() as progress:
        progress["exercises"][WRONG] = True
    sharing.renew()
    assert json.loads((learner / sharing.FILE).read_text())["exercises"][WRONG] == ""
    share.main(["--stop"])
    assert list(learner.iterdir()) == [] and sharing.shared() is None
    sharing.renew()
    assert list(learner.iterdir()) == []
    share.main(["--stop"])
    assert "nothing was shared" in capsys.readouterr().out


def test_the_file_is_for_the_learner_and_for_the_group_of_the_class_alone(learner):
    before = os.umask(0)
    try:
        sharing.begin()
        assert stat.S_IMODE((learner / sharing.FILE).stat().st_mode) == 0o600
        learner.chmod(0o2750)
        sharing.renew()
        assert stat.S_IMODE((learner / sharing.FILE).stat().st_mode) == 0o640
    finally:
        os.umask(before)


def test_without_a_hub_the_folder_of_the_class_is_named(learner, monkeypatch):
    monkeypatch.delenv(sharing.CLASS)
    with pytest.raises(LabError, match="labkit share FOLDER"):
        sharing.begin()
    with pytest.raises(LabError, match="there is no such folder"):
        sharing.begin(learner / "elsewhere")
    monkeypatch.setenv("LOGNAME", "grace")
    assert sharing.begin(learner.parent) == learner.parent / "grace" / sharing.FILE
    assert stat.S_IMODE((learner.parent / "grace").stat().st_mode) == 0o700
    learner.parent.chmod(0o3777)
    monkeypatch.setenv("LOGNAME", "alan")
    file = sharing.begin(learner.parent)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o2750 and stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_folder_that_is_gone_is_told_and_the_fix(learner):
    sharing.begin()
    (learner / sharing.FILE).unlink()
    learner.rmdir()
    with pytest.raises(LabError, match="labkit share --stop"):
        sharing.renew()
    sharing.end()
    sharing.renew()


def test_a_folder_that_cannot_be_looked_at_is_told_and_the_fix(learner):
    """As one that is closed to its learners after the term, or with such a name."""
    with pytest.raises(LabError, match="File name too long(?s:.*)labkit share --stop"):
        sharing._write(learner / ("x" * 300) / sharing.FILE)
