"""A course of a teacher's own: its lessons, its data set, its rank count; and what makes none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from labkit import LabError
from labkit.commands import front_page, lessons
from labkit.exercises import course, submission
from labkit.exercises.catalogue import LABKITS, LESSONS
from labkit.exercises.submission import ENDING

EXAMPLE = Path(__file__).parents[2] / "notebooks" / "course" / "course.toml"
OWN = EXAMPLE.with_name("30_weigh_the_shards.ipynb")


@pytest.fixture
def mine(tmp_path):
    """A copy of the example, to be changed."""
    shutil.copytree(EXAMPLE.parent, tmp_path / "course")
    return tmp_path / "course" / EXAMPLE.name


def test_labkit_s_own_course_is_all_of_its_lessons():
    assert LESSONS == LABKITS and lessons.current_course() is None


def test_the_example_has_its_lessons_in_their_order():
    found = course.read(EXAMPLE).lessons(LABKITS)
    assert [lesson.number for lesson in found] == ["00", "04", "30"]
    assert found[-1].exercises[0].name == "weighted_mean"


def test_a_learner_s_folder_gets_its_lessons_and_its_title(tmp_path, monkeypatch):
    for name, value in course.read(EXAMPLE).environment().items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "mine"
    folder.mkdir()
    lessons.provide(folder)
    assert sorted(path.name[:2] for path in folder.iterdir()) == ["00", "04", "30"]
    assert front_page.write(folder)
    page = (folder / front_page.NAME).read_text()
    assert page.startswith("# Gradients in one afternoon\n") and "[Weigh the shards](30_" in page
    lesson = folder / "30_weigh_the_shards.ipynb"
    as_it_was = lesson.read_text()
    lesson.write_text(as_it_was.replace("three", "four"))
    assert lessons.reset(lesson) == f"my_{lesson.name}" and lesson.read_text() == as_it_was


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("lessons = [", "cannot be read"),
        ("lessons = []", "names no lessons"),
        ("lessons = [0]", "names no lessons"),
        ('title = "no lessons"', "names no lessons"),
        ('lessons = ["00"]\nrank = 3', "it says rank"),
        ('lessons = ["00"]\nranks = 0', "no count"),
        ('lessons = ["00"]\nranks = true', "no count"),
        ('lessons = ["00"]\ndata = "none.py"', "none.py is not beside it"),
        ('lessons = ["31_none.ipynb"]', "31_none.ipynb is not beside it"),
        ('lessons = ["weigh.ipynb"]', "has no number"),
        ('lessons = ["77"]', f"there is no lesson {77}"),
    ],
)
def test_what_makes_no_course(mine, line, wrong):
    mine.write_text(line)
    with pytest.raises(LabError, match=wrong):
        course.read(mine).lessons(LABKITS)


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('"30",', '"31",', "no LESSON with the number 30"),
        ("LESSON = ", "OTHER = ", "no LESSON"),
        ("weighted_mean", "my_sum", "two exercises are called my_sum"),
    ],
)
def test_what_makes_no_lesson(mine, old, new, wrong):
    described = mine.with_name("lesson_30.py")
    described.write_text(described.read_text().replace(old, new))
    with pytest.raises(LabError, match=wrong):
        course.read(mine).lessons(LABKITS)


def test_the_lesson_of_one_s_own_is_stored_as_executed():
    code = [cell for cell in nbformat.read(OWN, as_version=4).cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    fix = "run: python tests/notebooks/refresh.py notebooks/course/30*.ipynb"
    assert counts == list(range(1, len(code) + 1)), fix


RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def in_course(mine: Path, *command: str) -> str:
    """What Python prints that runs as in a JupyterLab of that course."""
    environment = os.environ | course.read(mine).environment() | {"LABKIT_PROGRESS": str(mine.parent)}
    environment.pop("PYTEST_CURRENT_TEST", None)
    told = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=170
    )
    assert told.returncode == 0, told.stdout + told.stderr[-3000:]
    return told.stdout


def run(notebook: Path, mine: Path) -> str:
    """What its cells say, run as in a JupyterLab of that course."""
    in_course(mine, "-c", RUN, str(notebook))
    return "".join(str(cell.get("outputs", "")) for cell in nbformat.read(notebook, as_version=4).cells)


@pytest.mark.ranks
@pytest.mark.slow
def test_the_lesson_of_one_s_own_runs_and_its_exercise_is_judged_and_handed_in(mine, monkeypatch):
    notebook = mine.with_name(OWN.name)
    (exercise,) = course.read(mine).lessons(LABKITS)[-1].exercises
    text = nbformat.read(notebook, as_version=4)
    stub = next(cell for cell in text.cells if "def weighted_mean" in cell.source)
    assert stub.source == f"%%px\n{exercise.stub.rstrip()}", "the lesson has the stub of its exercise"
    stub.source = f"%%px\n{exercise.solution}"
    nbformat.write(text, notebook)
    said = run(notebook, mine)
    assert "solved: weighted_mean is right on every rank, in worlds of 2 and 3" in said
    assert "measured 50 %" in said and "1000 samples" in said
    monkeypatch.setenv("LABKIT_PROGRESS", str(mine.parent))
    handed = submission.collected("Ada").answers["weighted_mean"]
    assert handed.solved and handed.told.startswith("solved: ")
    assert handed.source == exercise.solution.rstrip()


@pytest.mark.ranks
@pytest.mark.slow
def test_the_lesson_of_one_s_own_says_what_is_stored(mine):
    """Every one of its cells, and nothing that is not compared but what is tagged so."""
    cells = sum(cell.cell_type == "code" for cell in nbformat.read(OWN, as_version=4).cells)
    options = ("--nbval", "--nbval-cell-timeout=120", "-p", "no:cacheprovider")
    said = in_course(mine, "-m", "pytest", *options, str(mine.with_name(OWN.name)))
    assert f"{cells} passed" in said


@pytest.mark.ranks
@pytest.mark.slow
def test_a_lesson_of_labkit_s_runs_on_the_course_s_data(mine, tmp_path):
    notebook = tmp_path / "04_train_in_step.ipynb"
    shutil.copy(EXAMPLE.parents[1] / notebook.name, notebook)
    assert "100.0% of unseen digits right" in run(notebook, mine), "those clouds are easier than digits"


@pytest.mark.ranks
@pytest.mark.slow
def test_its_answers_are_graded(mine, tmp_path):
    (exercise,) = course.read(mine).lessons(LABKITS)[-1].exercises
    answers = {"weighted_mean": {"source": exercise.solution, "solved": True, "told": "solved"}}
    handed = {"format": 1, "learner": "Ada", "answers": answers}
    (tmp_path / f"ada{ENDING}").write_text(json.dumps(handed))
    grade = [sys.executable, "-m", "labkit.commands", "grade", "--course", mine, tmp_path, "--no-sandbox"]
    told = subprocess.run(grade, capture_output=True, text=True, timeout=170)
    assert "1 answers of 1 learners: 1 right, 1 as the learner was told" in told.stdout, told.stderr
