"""A rank's traceback names the cell's lines, not the twenty frames of torch below them."""

import pytest
from IPython.utils.capture import capture_output

from labkit.lab.display.said import plain
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics


@pytest.fixture
def traceback(labs, shell):
    def of(code):
        with capture_output(), pytest.raises(CellError) as caught:
            PxMagics(shell, labs(2)).cell_px("", code)
        return plain("\n".join(caught.value._render_traceback_()))

    return of


def test_the_line_of_the_cell_has_an_arrow(traceback):
    told = traceback("x = 1\ny = 0\nx / y\nprint('after')")
    assert "----> 4 x / y" in told and "      3 y = 0" in told and told.count("ZeroDivisionError") >= 1


def test_functions_of_cells_are_shown_and_libraries_counted(traceback):
    told = traceback("def f(x):\n    return torch.nn.Linear(2, 2)(x)\nf(torch.ones(3))")
    assert "----> 3     return torch.nn.Linear(2, 2)(x)" in told and "----> 4 f(torch.ones(3))" in told
    assert "frames in libraries" in told and "site-packages" not in told


def test_the_learners_own_files_are_shown(traceback, tmp_path):
    (tmp_path / "mine.py").write_text("def f():\n    raise KeyError('lost')\n")
    told = traceback(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport mine\nmine.f()")
    assert "mine.py, line 2" in told and "----> 2     raise KeyError('lost')" in told
