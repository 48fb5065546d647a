"""Progress of its own for every test, and time for every answer."""

import pytest

from labkit.exercises import grade


@pytest.fixture(autouse=True)
def progress_folder(tmp_path, monkeypatch):
    """Where this test's progress is kept."""
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress"))
    return tmp_path / "progress"


@pytest.fixture(autouse=True)
def no_deadline_but_for_hangs(monkeypatch):
    """Other tests have the cores, too: an answer is right or wrong however long it takes."""
    monkeypatch.setattr(grade, "DEADLINE", 60.0)
