"""Each rank tells what it does while it does it."""

import time

import pytest

from labkit.lab.diagnosis import COMPUTING, WAITING
from labkit.lab.remote import ask_states

CELLS = {
    "computing": ("while True:\n    sum(range(100))", COMPUTING, ""),
    "recv": (
        "x = torch.zeros(1)\nwhile rank == 1: sum(range(100))\ndist.recv(x, src=1, tag=7)",
        WAITING,
        "recv from rank 1",
    ),
    "send": (
        "x = torch.zeros(1)\nwhile rank == 1: sum(range(100))\ndist.send(x, dst=1)",
        WAITING,
        "send to rank 1",
    ),
    "all_reduce": (
        "x = torch.zeros(1)\nwhile rank == 1: sum(range(100))\ndist.all_reduce(x)",
        WAITING,
        "all_reduce",
    ),
    "asleep": ("import time\ntime.sleep(100)", COMPUTING, ""),
}


@pytest.mark.parametrize("name", CELLS)
def test_state(labs, name):
    code, doing, what = CELLS[name]
    lab = labs(2)
    result = lab[:].execute(code, silent=False, block=False)
    try:
        deadline = time.monotonic() + 10
        while True:
            told = ask_states(lab, [0, 1])
            if set(told) == {0, 1} and told[0].doing == doing and told[0].place and told[1].place:
                break
            assert time.monotonic() < deadline, told
            time.sleep(0.05)
        assert told[0].what().startswith(what) and told[1].doing == COMPUTING
        assert told[0].place.split(": ", 1)[1] in code
    finally:
        lab.interrupt()
        result.wait(5)
        lab.recover()
