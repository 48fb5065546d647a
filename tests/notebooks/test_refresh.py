"""What is stored of a notebook, and what an editor adds and git must not see."""

import nbformat

from .conftest import LESSONS
from .refresh import main, tidy_file


def test_lessons_are_tidy(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_text(path.read_text())
    assert not tidy_file(copy)


def test_what_an_editor_adds_goes_and_what_nbval_compares_stays(tmp_path, capsys):
    before = nbformat.read(LESSONS[0], as_version=4)
    edited = nbformat.read(LESSONS[0], as_version=4)
    edited.metadata["widgets"] = {"state": {}}
    edited.cells[0].metadata["editable"] = True
    copy = tmp_path / LESSONS[0].name
    nbformat.write(edited, copy)
    assert main(["--tidy", str(copy)]) == 1 and "tidied" in capsys.readouterr().out
    assert nbformat.read(copy, as_version=4) == before, "outputs and execution counts as they were"
    assert main(["--tidy", str(copy)]) == 0
