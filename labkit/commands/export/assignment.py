"""A lesson's exercises as an assignment for otter-grader or nbgrader, whose checks call labkit's judge.

    $ labkit export --for otter 02 -o lesson_02.ipynb
    $ otter assign lesson_02.ipynb out                             # for learners, and what grades them
    $ otter run -a out/autograder/*.zip ada.ipynb
    $ labkit export --for nbgrader 02 -o source/lesson_02/lesson_02.ipynb
    $ nbgrader generate_assignment lesson_02
    $ nbgrader autograde lesson_02

Both run what learners hand in as whoever calls them: do it in a container, or use `labkit grade`.
"""

from __future__ import annotations

from collections.abc import Callable

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from labkit import LabError
from labkit.exercises.catalogue import LESSONS
from labkit.exercises.describe import Lesson

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
START = "import labkit\nfrom labkit.exercises import require\n\nlab = labkit.start({ranks})"
OTTER = """\
# ASSIGNMENT CONFIG
name: lesson_{number}
init_cell: true
export_cell: false
check_all_cell: false
save_environment: false
show_question_points: true"""


def assignment(form: str, number: str) -> NotebookNode:
    """The master notebook of a lesson's exercises, for "otter" or "nbgrader"."""
    lesson = next((lesson for lesson in LESSONS if lesson.number == number), None)
    if lesson is None:
        there = f"{LESSONS[0].number} to {LESSONS[-1].number}"
        raise LabError(
            f"the exercises of lesson {number}", "there is no such lesson", f"a number from {there}"
        )
    cells = FORMS[form](lesson)
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"  # the same in every export
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def _otter(lesson: Lesson) -> list[NotebookNode]:
    cells = [new_raw_cell(OTTER.format(number=lesson.number)), *_head(lesson)]
    for exercise in lesson.exercises:
        cells += [
            new_raw_cell(f"# BEGIN QUESTION\nname: {exercise.name}\npoints: 1"),
            new_markdown_cell(exercise.task),
            new_raw_cell("# BEGIN SOLUTION"),
            new_code_cell(
                f"%%px\n# BEGIN SOLUTION NO PROMPT\n{exercise.solution.rstrip()}\n# END SOLUTION\n"
                f'""" # BEGIN PROMPT\n{exercise.stub.rstrip()}\n""" # END PROMPT'
            ),
            new_raw_cell("# END SOLUTION"),
            new_raw_cell("# BEGIN TESTS"),
            new_code_cell(f'require("{exercise.name}")'),
            new_raw_cell("# END TESTS"),
            new_raw_cell("# END QUESTION"),
        ]
    return cells


def _nbgrader(lesson: Lesson) -> list[NotebookNode]:
    cells = _head(lesson)
    for exercise in lesson.exercises:
        mine = f"{lesson.number}-{exercise.name}"
        answer = (
            f"{exercise.stub.rstrip()}\n### BEGIN SOLUTION\n{exercise.solution.rstrip()}\n### END SOLUTION"
        )
        cells += [
            new_markdown_cell(exercise.task),
            _graded(
                f"%%px\n{answer}",
                grade_id=mine, solution=True, grade=False, locked=False,
            ),
            _graded(
                f'require("{exercise.name}")',
                grade_id=f"{mine}-check", solution=False, grade=True, locked=True, points=1,
            ),
        ]  # fmt: skip
    return cells


def _graded(source: str, **about: str | bool | int) -> NotebookNode:
    told = {"cell_type": "code", "schema_version": 3, "task": False, **about}
    return new_code_cell(source, metadata={"nbgrader": told})


def _head(lesson: Lesson) -> list[NotebookNode]:
    """A title, ranks for the largest world, and what answers may call."""
    ranks = max(max(exercise.sizes) for exercise in lesson.exercises)
    cells = [
        new_markdown_cell(f"# {lesson.title}\n\nThe exercises of lesson {lesson.number}."),
        new_code_cell(START.format(ranks=ranks)),
    ]
    used = sorted({line for exercise in lesson.exercises for line in exercise.imports})
    return [*cells, new_code_cell("\n".join(["%%px", *used]))] if used else cells


FORMS: dict[str, Callable[[Lesson], list[NotebookNode]]] = {"otter": _otter, "nbgrader": _nbgrader}
"""What makes the cells of each form."""
