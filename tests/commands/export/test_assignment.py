"""Assignments for other graders: their own commands give the points that `labkit grade` gives."""

import csv
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from labkit.commands.__main__ import main
from labkit.commands.export.assignment import FORMS, assignment
from labkit.exercises.catalogue import LESSONS
from labkit.exercises.submission import ENDING

LESSON = next(lesson for lesson in LESSONS if lesson.number == "02")
SOLUTIONS = {exercise.name: exercise.solution for exercise in LESSON.exercises}
THE_SUM = "def mean_loss(loss):\n    total = loss.clone()\n    dist.all_reduce(total)\n    return total\n"
LEARNERS = {"ada": SOLUTIONS, "bob": SOLUTIONS | {"mean_loss": THE_SUM}, "carol": {}}
"""What three of them hand in: all right, one wrong, nothing."""
POINTS = {"ada": 3, "bob": 2, "carol": 0}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_every_exercise_is_in_it_with_its_check(form, lesson):
    made = assignment(form, lesson.number)
    nbformat.validate(made)
    sources = [cell.source for cell in made.cells if cell.cell_type == "code"]
    for exercise in lesson.exercises:
        assert f'require("{exercise.name}")' in sources
        (answer,) = [s for s in sources if exercise.solution.rstrip() in s]
        assert answer.startswith("%%px\n") and exercise.stub.rstrip() in answer


def test_no_such_lesson_and_a_file_that_is_there(tmp_path, capsys):
    assert main(["export", "--for", "otter", "99"]) == 1
    assert "there is no such lesson" in capsys.readouterr().err
    (tmp_path / "mine").write_text("mine")
    assert main(["export", "--for", "otter", "02", "-o", str(tmp_path / "mine")]) == 1
    assert (tmp_path / "mine").read_text() == "mine"


def needs(command: str, module: str) -> str:
    """The command of this environment."""
    found = shutil.which(
        command, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    if not found or not find_spec(module):
        pytest.skip(f"{command} is not in this environment: pip install it to try the bridge to it")
    return found


def done(command: list, folder: Path) -> None:
    """Run it there; it says why if it does not end well."""
    kept = {"HOME": str(folder), "LABKIT_PROGRESS": str(folder / "progress")}
    told = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=os.environ | kept,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]


def answered(notebook: Path, answers: dict[str, str], to: Path) -> None:
    """A learner's copy: each stub with its answer in its place."""
    made = nbformat.read(notebook, as_version=4)
    for cell in made.cells:
        for name, answer in answers.items():
            if cell.cell_type == "code" and f"def {name}(" in cell.source:
                cell.source = f"%%px\n{answer}"
    to.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, to)


def by_labkit(folder: Path) -> dict[str, int]:
    """The points that `labkit grade` gives."""
    for learner, answers in LEARNERS.items():
        told = {name: {"source": text, "solved": False, "told": ""} for name, text in answers.items()}
        handed = {"format": 1, "learner": learner, "answers": told}
        (folder / f"{learner}{ENDING}").write_text(json.dumps(handed))
    assert main(["grade", str(folder), "--no-sandbox", "--seconds", "400"]) == 0
    with open(folder / "grades.csv") as table:
        rows = list(csv.DictReader(table))
    return {who: sum(r["solved"] == "yes" for r in rows if r["learner"] == who) for who in LEARNERS}


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.timeout(1500)
def test_otter_gives_the_points_of_labkit_grade(tmp_path):
    otter = needs("otter", "otter")
    assert main(["export", "--for", "otter", "02", "-o", str(tmp_path / "lesson_02.ipynb")]) == 0
    done([otter, "assign", "lesson_02.ipynb", "out"], tmp_path)
    (grader,) = tmp_path.glob("out/autograder/*.zip")
    points = {}
    for learner, answers in LEARNERS.items():
        handed = tmp_path / learner / "lesson_02.ipynb"
        answered(tmp_path / "out/student/lesson_02.ipynb", answers, handed)
        done([otter, "run", "-a", grader, "-o", handed.parent, handed], handed.parent)
        told = json.loads((handed.parent / "results.json").read_text())
        points[learner] = sum(test["score"] for test in told["tests"] if test["name"] != "Public Tests")
    assert points == POINTS == by_labkit(tmp_path)


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.timeout(1500)
def test_nbgrader_gives_the_points_of_labkit_grade(tmp_path):
    nbgrader = needs("nbgrader", "nbgrader")
    source = tmp_path / "source/lesson_02/lesson_02.ipynb"
    source.parent.mkdir(parents=True)
    assert main(["export", "--for", "nbgrader", "02", "-o", str(source)]) == 0
    done([nbgrader, "generate_assignment", "lesson_02"], tmp_path)
    for learner, answers in LEARNERS.items():
        handed = tmp_path / "submitted" / learner / "lesson_02/lesson_02.ipynb"
        answered(tmp_path / "release/lesson_02/lesson_02.ipynb", answers, handed)
    done([nbgrader, "autograde", "lesson_02", "--ExecutePreprocessor.timeout=300"], tmp_path)
    done([nbgrader, "export", "--to", "points.csv"], tmp_path)
    with open(tmp_path / "points.csv") as table:
        points = {row["student_id"]: float(row["score"]) for row in csv.DictReader(table)}
    assert points == POINTS == by_labkit(tmp_path)
