"""What `labkit grade` reads and writes: files that are none, and files of the user's that stay."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.commands.__main__ import main
from labkit.commands.grade import again, veil, walls
from labkit.commands.grade.sandbox import Ended
from labkit.commands.grade.walls import Limits
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.course import COURSE
from labkit.exercises.submission import ENDING, Handed, Submission


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


@pytest.mark.parametrize("sign", ["\x1b]0;x\x07", "\u202e", "\n"], ids=ascii)
def test_nothing_of_a_file_acts_on_the_terminal(tmp_path, sign, capsys):
    """Neither its name, nor what it says, nor who it says has handed it in."""
    (tmp_path / f"a{sign}b{ENDING}").write_text('{"format": "' + sign.replace("\n", "") + '"}')
    told = {"format": 1, "learner": f"Ada{sign}", "answers": {}}
    (tmp_path / f"ada{ENDING}").write_text(json.dumps(told))
    assert main(["grade", str(tmp_path), "--no-sandbox"]) == 1
    shown = capsys.readouterr()
    assert sign == "\n" or sign not in shown.out + shown.err
    assert len(shown.err.splitlines()) == 3 and "printable letters" in shown.err


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


OWN = ("30_own.ipynb", "lesson_30.py", "data.py", "data.csv")
COURSE_FILE = 'title = "Mine"\nlessons = ["00", "30_own.ipynb"]\ndata = "data.py"\n'


def test_of_a_course_only_its_own_files_are_seen(tmp_path, monkeypatch):
    """Not what lies beside them: the home, answers of other weeks, grades of an earlier time, or a
    solution."""
    (tmp_path / "course.toml").write_text(COURSE_FILE)
    for name in (*OWN, f"ada{ENDING}", "grades.csv", "solution.py", "data_old.py"):
        (tmp_path / name).touch()
    for folder in ("data", "grades", "__pycache__"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data.txt").symlink_to("/etc/passwd")
    monkeypatch.setenv(COURSE, str(tmp_path / "course.toml"))
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = {Path(path).name for path in walls._seen() if Path(path).is_relative_to(tmp_path)}
    assert seen == {"course.toml", *OWN, "data"}


@pytest.mark.parametrize("where", [".", ".local"])
def test_of_a_home_with_programs_in_it_only_those_are_seen(tmp_path, monkeypatch, where):
    """As where pip has installed for a user alone, or an environment was made in the home itself."""
    prefix = tmp_path / where
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    for folder in ("bin", f"{library}/site-packages", "share/jupyter/runtime"):
        (prefix / folder).mkdir(parents=True)
    private = ("bin/deploy", "share/jupyter/runtime/token", "notes")
    for name in ("bin/python3", "bin/mpiexec", "lib/libmpi.so", *private):
        (prefix / name).touch()

    class Package:
        name, files = "mpich", ("bin/mpiexec", "lib/libmpi.so", "lib/gone")
        locate_file = staticmethod(lambda file: prefix / file)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(walls.metadata, "distributions", lambda: [Package])
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(walls, "_mpi", lambda: prefix / "bin")
    seen = {Path(path) for path in walls._seen() if Path(path).is_relative_to(prefix)}
    wanted = {"bin/python3", "bin/mpiexec", "lib/libmpi.so", library}
    assert {str(path.relative_to(prefix)) for path in seen} == wanted


LESSONS_AS_READ = """
import importlib, json, sys, types, torch
sys.modules["labkit.exercises"] = types.ModuleType("labkit.exercises")
sys.modules["labkit.exercises"].__path__ = [sys.argv[1]]
importlib.import_module("labkit.exercises.lessons").__path__ = [sys.argv[2]]
from labkit.exercises.catalogue import LABKITS
told = {}
for e in (e for lesson in LABKITS for e in lesson.exercises):
    drawn = str(e.given(torch.Generator().manual_seed(3), e.sizes[0]))[:300].partition("' at 0x")[0]
    limits, untouched = [limit.measure for limit in e.limits], sorted(e.untouched.items())
    kept = [e.stub, e.imports, e.sizes, limits, e.calls, e.becomes, untouched, drawn.partition(" at 0x")[0]]
    told[e.name] = kept, len(e.solution + e.why + str(e.hints)) - 2
print(json.dumps(told))
"""


def test_lessons_are_the_same_without_what_is_right():
    """Each exercise as ranks read it draws the same, is used the same, and has no solution and no judge."""
    folders = veil.LESSONS, veil.files()[str(veil.LESSONS)]
    whole, veiled = (seen_by(LESSONS_AS_READ, veil.LESSONS.parent, folder) for folder in folders)
    assert {name: kept for name, (kept, _) in whole.items()} == {n: kept for n, (kept, _) in veiled.items()}
    assert len(whole) > 50 and {right for _, right in veiled.values()} == {0}
    text = "".join(path.read_text() for path in folders[1].glob("*.py"))
    assert "Mistake" not in text and "compare" not in text
    lines = exercise_named("mean_loss").solution.splitlines()[1:]
    assert not [line for line in lines if line.strip() in text]


def seen_by(program: str, *folders: Path) -> dict:
    command = [sys.executable, "-c", program, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_answers_that_hear_nothing_hold_up_a_class_for_so_long(monkeypatch):
    """After some of one file that had to be ended, its others are not run, and all of other files are."""
    names, ran = list(again.NUMBER)[:8], []

    def run(bwrap, name, source, limits, hidden):
        ran.append(source)
        return Ended("", "more than 180 s") if source == "deaf" else Ended(json.dumps(
            {"solved": True, "mistake": "", "refused": ""}
        ))  # fmt: skip

    monkeypatch.setattr(again, "run", run)
    files = {who: Submission(who, {name: Handed(who) for name in names}) for who in ("deaf", "right")}
    for at_once in (1, 4):
        ran.clear()
        results = again.judged(files, "", Limits(), [], at_once)
        assert ran.count("deaf") <= again.DEAF + (at_once - 1) + again.DEAF * (at_once > 1)
        assert [r.solved for r in results] == [False] * 8 + [True] * 8
        assert results[7].mistake == again.NOT_RUN and results[7].look_at
