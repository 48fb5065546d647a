"""What `labkit grade` reads and writes: files that are none, and files of the user's that stay."""

import os

import pytest

from labkit import LabError
from labkit.commands.__main__ import main
from labkit.commands.grade import _handed_in_beside, again
from labkit.commands.grade.walls import Limits
from labkit.exercises.course import COURSE, current
from labkit.exercises.submission import ENDING


def test_no_folder_and_nothing_in_it(tmp_path, capsys):
    assert main(["grade", str(tmp_path / "none")]) == main(["grade", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "there is no such folder" in said and f"no file there ends in {ENDING}" in said


@pytest.mark.parametrize("name", ["grades.csv", "grades.html"])
def test_a_file_of_the_user_s_stays(tmp_path, name, capsys):
    (tmp_path / f"ada{ENDING}").write_text("{")
    (tmp_path / name).write_text("mine")
    assert main(["grade", str(tmp_path), "--no-sandbox"]) == 1
    assert "a file of that name is yours" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_that_cannot_be_read_is_told_and_stops_nobody(tmp_path, capsys):
    (tmp_path / f"broken{ENDING}").write_text("{")
    (tmp_path / f"link{ENDING}").symlink_to("/etc/passwd")
    (tmp_path / os.fsdecode(b"jos\xe9" + ENDING.encode())).write_text("{")  # as a Latin-1 system names it
    for _ in range(2):  # the second time over what the first has written
        assert main(["grade", str(tmp_path), "--no-sandbox"]) == 1
    page = (tmp_path / "grades.html").read_text()
    assert (
        f"broken{ENDING}" in page
        and "it is no file" in page
        and f"jos\N{REPLACEMENT CHARACTER}{ENDING}" in page
    )
    assert f"broken{ENDING}: it cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--seconds", "--memory", "--at-once"])
def test_limits_are_above_0(tmp_path, option, capsys):
    (tmp_path / f"ada{ENDING}").write_text("{")
    assert main(["grade", str(tmp_path), option, "0"]) == 1
    assert "not above 0" in capsys.readouterr().err


def test_exercises_that_labkit_has_not_are_left_out(tmp_path):
    submitted = (
        '{"format": 1, "learner": "Ada", "answers": {"x": {"source": "", "solved": true, "told": ""}}}'
    )
    (tmp_path / f"ada{ENDING}").write_text(submitted)
    found, broken = again.submissions(tmp_path)
    assert not broken and again.judged(found, "", again.Limits(), []) == []


def test_a_course_that_asks_for_no_answer_has_none_to_judge(monkeypatch):
    monkeypatch.setattr(again, "LESSONS", ())
    again.require_fair("", Limits(), [])


def test_a_course_in_the_home_folder_is_refused(tmp_path, monkeypatch):
    """Its folder is what answers can read."""
    home = tmp_path / "ada"
    home.mkdir()
    (home / "course.toml").write_text('title = "Mine"\nlessons = ["00"]\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv(COURSE, str(home / "course.toml"))
    with pytest.raises(LabError, match="your home is in it"):
        _handed_in_beside(current().file.parent)
    weeks = [home / "course" / week for week in ("1", "2")]
    for week in weeks:
        week.mkdir(parents=True)
        (week / f"ada{ENDING}").touch()
    assert _handed_in_beside(home / "course") == weeks
