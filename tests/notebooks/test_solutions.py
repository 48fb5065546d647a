"""Lessons once more, as a learner leaves them who has done everything: each check passes.

Four of them in `make test-all`, all by night.
"""

import re
from operator import attrgetter

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from labkit.exercises.catalogue import LESSONS
from labkit.launch import living
from tests.conftest import in_tiers

from .conftest import LESSONS as PATHS


def solved(notebook, lesson) -> int:
    """Put a number, a solution and the right letter wherever one is asked for; how many there were."""
    put = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.source, predictions = re.subn(r"(labkit\.predict\(\"\w+\", )None\)", r"\g<1>4)", cell.source)
        before = cell.source
        for exercise in lesson.exercises:
            if before == f"%%px\n{exercise.stub.rstrip()}":
                cell.source = f"%%px\n{exercise.solution}"
        for name, question in lesson.named_questions.items():
            cell.source = cell.source.replace(f'("{name}", None)', f'("{name}", "{question.right}")')
        put += predictions + (cell.source != before)
    return put


def said(cell) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


@pytest.mark.parametrize("path", in_tiers(PATHS, 0, 4, attrgetter("stem")))
def test_with_the_solutions_put_in_every_check_passes(path, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path))
    monkeypatch.setenv("LABKIT_SERVER", living.identity(psutil.Process()))  # one lab for all lessons
    lesson = next(lesson for lesson in LESSONS if lesson.number == path.stem[:2])
    notebook = nbformat.read(path, as_version=4)
    assert solved(notebook, lesson) == len(lesson.predictions) + len(lesson.exercises) + 1
    notebook.cells.append(nbformat.v4.new_code_cell("labkit.progress()"))
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    told = {cell.source: said(cell) for cell in notebook.cells if cell.cell_type == "code"}
    for exercise in lesson.exercises:
        assert told[f'labkit.check("{exercise.name}")'].startswith("solved: "), told
    everything = "\n".join(told.values())
    assert everything.count("you said 4 ") == len(lesson.predictions)
    assert everything.count(": right. ") == len(lesson.questions)
    row = next(line for line in told["labkit.progress()"].splitlines() if line.startswith(lesson.number))
    assert re.findall(r"(\d) of (\d)", row) == [
        (str(n), str(n)) for n in map(len, (lesson.exercises, lesson.predictions, lesson.questions))
    ]
