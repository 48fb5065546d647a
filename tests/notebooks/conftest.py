"""The lessons, as data."""

from pathlib import Path

import nbformat
import pytest

LESSONS = sorted(Path(__file__).parents[2].joinpath("notebooks").glob("*.ipynb"))


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def path(request) -> Path:
    """Each lesson in turn."""
    return request.param


@pytest.fixture
def lesson(path):
    """The lesson's notebook."""
    return nbformat.read(path, as_version=4)


@pytest.fixture
def code(lesson):
    """Its code cells."""
    return [cell for cell in lesson.cells if cell.cell_type == "code"]


@pytest.fixture
def prose(lesson) -> str:
    """Its text."""
    return "\n\n".join(cell.source for cell in lesson.cells if cell.cell_type == "markdown")
