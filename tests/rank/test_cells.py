"""Places in cells are the notebook's: the number beside the cell, the line in its editor."""

import pytest

from tests.waiting import NO_HURRY

CELLS = {
    "plain": "%%px\nhere = 1\nraise ValueError('bad')",
    "options": "%%px --deadline 9\nhere = 1\nraise ValueError('bad')",
    "blank lines": "%%px\n\n\nraise ValueError('bad')",
    "indented": "%%px\n    here = 1\n    raise ValueError('bad')",
    "prompts": "%%px\n>>> here = 1\n>>> raise ValueError('bad')",
    "a line's magic": "%%px\n%config Completer.use_jedi = False\nraise ValueError('bad')",
}


def error(kernel, cell: str) -> tuple[str, str]:
    """The message and the traceback of a cell that fails, without colours."""
    (found,) = (o for o in kernel.run(cell) if o["output_type"] == "error")
    return found["evalue"], "\n".join(found["traceback"])


@pytest.mark.parametrize("name", CELLS)
def test_lines_are_the_editors_and_numbers_the_notebooks(kernel, name):
    cell = CELLS[name]
    message, traceback = error(kernel, cell)
    number, line = kernel.number, cell.count("\n") + 1
    assert message == f"ranks 0-1: ValueError: bad (line {line}: raise ValueError('bad'))"
    assert f"Cell In [{number}], line {line}" in traceback and "# In [" not in traceback


def test_a_function_of_another_cell_is_placed_there(kernel):
    kernel.run("%%px\ndef receive():\n    dist.recv(torch.zeros(1), src=1 - rank)")
    number = kernel.number
    with kernel.having("labkit.lab.remote.RETURN_DEADLINE", NO_HURRY):  # new ranks would not know it
        message, _ = error(kernel, "%%px\nreceive()")
    place = f"In [{number}], line 3: dist.recv(torch.zeros(1), src=1 - rank)"
    assert f"rank 0 in recv from rank 1, {place}" in message
    kernel.run("%%px\nimport time\ndef rest():\n    time.sleep(100)")
    place = f"In [{kernel.number}], line 4: time.sleep(100)"
    with kernel.having("labkit.lab.remote.RETURN_DEADLINE", NO_HURRY):
        message, _ = error(kernel, "%%px --deadline 3\nrest()")
    assert f"ranks 0-1 at {place}" in message
    assert f"at In [{number}]" in kernel.text("%%px\nimport inspect\nprint('at', inspect.getfile(receive))")


def test_a_syntax_error_points_into_the_cell(kernel):
    message, traceback = error(kernel, "%%px\nx = 1\nif rank = 0: pass")
    number = kernel.number
    assert f"(In [{number}], line 3)" in message
    assert f"Cell In [{number}], line 3" in traceback and "   ^^^" in traceback


def test_the_whole_source_of_a_cell_is_found(kernel):
    kernel.run("%%px\ndef twice(x):\n    return 2 * x")
    assert "    return 2 * x" in kernel.text("%%px\nimport inspect; print(inspect.getsource(twice))")


def test_magics_of_a_whole_cell_run_on_ranks(kernel):
    assert "CPU times" in kernel.text("%%px\n%%time\nx = 1")


def test_tracebacks_are_coloured(kernel):
    _, traceback = error(kernel, "%%px\n1 / 0")
    assert "\x1b[32m----> 2\x1b[39m 1 / 0" in traceback and "\x1b[31mZeroDivisionError\x1b[39m:" in traceback


def test_a_rank_does_not_send_its_cell_back(labs):
    result = labs(2).client[:].execute("print('here')", silent=False, block=True)
    result.wait_for_output(30)
    assert [(m["stdout"], m["execute_input"]) for m in result.metadata] == 2 * [("here\n", None)]
