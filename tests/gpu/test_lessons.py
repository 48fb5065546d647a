"""Lessons run on GPUs as they are stored: every assert in them holds, and what shall fail fails as told."""

import os

import nbformat
import pytest
from nbclient import NotebookClient

from tests.lessons import NOTEBOOKS, lesson


def errors(notebook) -> dict[int, str]:
    """The first line of what each cell that failed says, by its number."""
    return {
        number: output.evalue.splitlines()[0]
        for number, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    }


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", sorted(path.name[:2] for path in NOTEBOOKS.glob("[0-9]*.ipynb")))
def test_a_lesson(number, tmp_path, record_property):
    path = lesson(number)
    notebook, stored = (nbformat.read(path, as_version=4) for _ in range(2))
    resources = {"metadata": {"path": str(path.parent)}}
    environment = os.environ | {"LABKIT_DEVICE": "cuda", "LABKIT_PROGRESS": str(tmp_path)}
    NotebookClient(notebook, timeout=300, resources=resources).execute(env=environment)
    table = next(cell for cell in notebook.cells if cell.cell_type == "code").outputs[-1]
    assert "cuda:0" in table.data["text/plain"]
    assert errors(notebook) == errors(stored)
    record_property("cells", sum(cell.cell_type == "code" for cell in notebook.cells))
