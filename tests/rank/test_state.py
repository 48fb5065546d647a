"""Each rank tells what it does while it does it."""

import pytest

from labkit.lab.diagnosis import COMPUTING, WAITING
from labkit.lab.remote import ask_states
from tests.waiting import WITHIN, until

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
        told = {}

        def there() -> bool:
            told.update(ask_states(lab, [0, 1]))
            return set(told) == {0, 1} and told[0].doing == doing and told[0].place and told[1].place

        assert until(there), told
        assert told[0].what().startswith(what) and told[1].doing == COMPUTING
        assert told[0].place.split(": ", 1)[1] in code
    finally:
        lab.interrupt()
        result.wait(WITHIN)
        lab.recover()


ASKED_ON_ITS_WAY = """
import torch.distributed.distributed_c10d as c10d
from labkit.rank.state import state
before, told = c10d._check_single_tensor, []
inside = {"state": state, "before": before, "told": told}
exec("def check(*given): told.append(state(0)), before(*given)", inside)
c10d._check_single_tensor = inside["check"]
dist.all_reduce(torch.ones(1))
c10d._check_single_tensor = before
"""


def test_a_rank_in_a_verb_that_does_not_wait_yet_computes(labs):
    """It has no number of the collective to tell, and to ask for one would be an error."""
    lab = labs(1)
    lab[:].execute(ASKED_ON_ITS_WAY, block=True)
    told = lab[0]["told[0]"]
    assert told.doing == COMPUTING and told.place.endswith("dist.all_reduce(torch.ones(1))")
