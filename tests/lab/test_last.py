"""`lab.last` shows the result of the last cell again, whoever had not seen it."""

import pytest
from IPython.utils.capture import capture_output

from labkit.lab.last import NONE, Last
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics


def shown(make):
    with capture_output() as captured:
        make()
    return [output.data for output in captured.outputs]


def test_a_result_is_shown_again_as_it_was(labs, shell):
    lab = labs(2)
    first = shown(lambda: PxMagics(shell, lab).cell_px("", "print('rank', rank)"))
    assert shown(lab.last._ipython_display_) == first
    assert repr(lab.last) == first[0]["text/plain"] == "[rank 0] rank 0\n[rank 1] rank 1"


def test_an_error_is_told_again(labs, shell):
    lab = labs(2)
    with pytest.raises(CellError) as caught:
        PxMagics(shell, lab).cell_px("", "print('so far')\nassert rank == 0, 'no'")
    again = [data["text/plain"] for data in shown(lab.last._ipython_display_)]
    assert again == ["[ranks 0-1] so far", f"CellError: {caught.value}"]


def test_a_trace_stays_until_the_next_trace(labs, shell):
    lab = labs(2)
    with lab.trace() as trace:
        lab[:].execute("dist.barrier()", block=True)
    shown(lambda: PxMagics(shell, lab).cell_px("", "1"))
    assert lab.last.trace is trace


def test_before_any_cell_there_is_nothing():
    assert repr(Last()) == NONE and shown(Last()._ipython_display_) == [{"text/plain": NONE}]
