"""An answer is handed in as it stands in the notebook's cells, with what it needs of them and no more."""

import pytest

from labkit.exercises.answer import source

HELPER = "%%px\nimport math\ndef half(x):  # of it\n    return x / TWO"
USES = "%%px\ndef mine(x):\n    return half(x) + rank"


def test_with_what_it_needs_in_the_order_of_the_notebook():
    handed = source("mine", [HELPER, "%%px\nTWO = 2\ny = half(3)\n", USES])
    names = {"rank": 1}
    exec(handed, names)
    assert names["mine"](4) == 3
    assert "of it" in handed and "math" not in handed and "y =" not in handed


def test_the_latest_definition_counts():
    handed = source("mine", ["%%px\ndef mine():\n    return 1", "%%px\ndef mine():\n    return 2"])
    assert "return 2" in handed and "return 1" not in handed


def test_a_cell_with_another_magic_above_and_a_function_in_one_line():
    cells = ["%%px\ndef mine():\n    return 1", "%%time\n%%px\nmine = lambda: 2"]
    assert source("mine", cells) == "mine = lambda: 2"


def test_a_class_with_its_decorator():
    cell = "%%px\nfrom dataclasses import dataclass\n@dataclass\nclass Mine:\n    x: int = 3\n"
    names = {}
    exec(source("Mine", [cell]), names)
    assert names["Mine"](4).x == 4


@pytest.mark.parametrize("call", ["dist.all_reduce(x)", "open('kept', 'w')", "[print(1)]"])
def test_what_is_called_at_the_top_of_a_cell_is_not_handed_in(call):
    handed = source("mine", [f"%%px\nTWO = {call}\n{call}", "%%px\ndef mine():\n    return TWO"])
    assert handed == "def mine():\n    return TWO"


@pytest.mark.parametrize(
    "cells",
    [[], ["def mine():\n    return 1"], ["%%px\ndef mine(:\n"], ["%%pxresult\ndef mine():\n    return 1"]],
    ids=["none", "not on the ranks", "a syntax error", "another magic"],
)
def test_nothing_there(cells):
    assert source("mine", cells) == ""


def test_functions_that_call_each_other_end():
    cells = ["%%px\ndef a():\n    return b()\ndef b():\n    return a()"]
    assert source("a", cells).count("def ") == 2
