"""The lessons, as data."""

from pathlib import Path

import nbformat
import pytest

LESSONS = sorted(Path(__file__).parents[2].joinpath("notebooks").glob("*.ipynb"))

UNCHECKED = ("05_when_does_it_pay", "06_all_reduce_in_a_ring")
"""Lessons whose exercises have no checks yet, and whose prose has not been gone through for numbers."""


def pytest_collection_modifyitems(items):
    for item in items:
        about = item.path.stem in ("test_exercises", "test_prose", "test_solutions")
        if about and item.path.parent == Path(__file__).parent and any(n in item.name for n in UNCHECKED):
            item.add_marker(pytest.mark.xfail(reason="this lesson's exercises have no checks yet"))


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
