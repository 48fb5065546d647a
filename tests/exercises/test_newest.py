"""A check judges the learner's latest definition, or says why the ranks do not have it."""

from types import SimpleNamespace

import pytest

from labkit.exercises import newest

ON_RANKS = "%%px\ndef swap(mine):\n    return mine"
IN_NOTEBOOK = "def swap(mine):\n    return mine"
BROKEN = "%%px\ndef swap(mine):\n    return mine +"
BROKEN_IN_NOTEBOOK = BROKEN.removeprefix("%%px\n")


@pytest.fixture
def told(monkeypatch):
    """`told(cells, function)`: what is said after these cells, whose notebook has a swap or not."""

    def told(cells, function=newest.not_on_the_ranks, asked="swap"):
        history = SimpleNamespace(input_hist_raw=["", *cells])
        names = {"swap": print} if IN_NOTEBOOK in cells else {}
        shell = SimpleNamespace(history_manager=history, user_ns=names)
        monkeypatch.setattr(newest, "get_ipython", lambda: shell)
        return function(asked)

    return told


def test_a_definition_without_px_is_told(told):
    assert told([ON_RANKS, IN_NOTEBOOK]) == (
        "You defined `swap` in the notebook: put %%px in the first line of In [2], and run it again"
    )


@pytest.mark.parametrize(("cell", "line"), [(BROKEN, 3), (BROKEN_IN_NOTEBOOK, 2)])
def test_a_definition_that_never_ran_is_told(told, cell, line):
    assert told([ON_RANKS, cell]).startswith(
        f"In [2], which defines swap, has a syntax error in line {line}: "
    )


def test_a_class_is_looked_for_as_a_function_is(told):
    of_ranks = "%%px\nclass swap:\n    pass"
    assert told([of_ranks, of_ranks + " +"]).startswith("In [2], which defines swap, has a syntax error")
    assert told([of_ranks]) == ""


@pytest.mark.parametrize(
    "cells", [[], [ON_RANKS], [IN_NOTEBOOK, ON_RANKS], [BROKEN, ON_RANKS], ["x = 1"], ["%%time\n" + BROKEN]]
)
def test_else_nothing_is_said(told, cells):
    assert told(cells) == ""


def test_a_name_that_a_restart_lost_says_which_cell_to_run(told):
    cells = ["%%px\nimport torch\ndef mix(a, b):\n    pass", "%%px\nmixed = 1"]
    error = "rank 0: NameError: name 'mix' is not defined (line 6)"
    assert told(cells, newest.defined_by, error) == "\nIn [1] defines mix: run it again, the ranks are new"
    assert told(["%%px\ncopy = 3"], newest.defined_by, error) == ""


def test_a_name_that_only_the_notebook_has_says_so(told):
    error = "rank 0: NameError: name 'mix' is not defined (line 6)"
    said = "\nIn [1] defines mix in the notebook, not on the ranks: bring it into a %%px cell"
    assert told(["def mix(a, b):\n    pass"], newest.defined_by, error) == said
