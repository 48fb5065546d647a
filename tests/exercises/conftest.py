"""Progress of its own for every test."""

import pytest


@pytest.fixture(autouse=True)
def progress_folder(tmp_path, monkeypatch):
    """Where this test's progress is kept."""
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress"))
    return tmp_path / "progress"
