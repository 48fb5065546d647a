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


def test_the_memory_is_the_ranks_own(labs):
    lab = labs(2)
    lab[1].execute("much = torch.ones(50 << 20)", block=True)  # 200 MB
    try:
        told = ask_states(lab, [0, 1])
        assert told[1].memory - told[0].memory > 150e6, told
    finally:
        lab[1].execute("del much", block=True)


WORKS_WHILE_ASKED = """
import sys, threading
from labkit.algorithms.memory import Memory
from labkit.rank.state import runs_a_cell, state

def work():
    large = torch.ones(1000)
    return large.sum()

def ask():
    while not ended.wait(1e-4):
        state(0), runs_a_cell()

ended, asking = threading.Event(), threading.Thread(target=ask)
sys.setswitchinterval(1e-6)
asking.start()
with Memory() as memory:
    for _ in range(2000):
        work()
ended.set()
asking.join()
sys.setswitchinterval(0.005)
"""


def test_who_looks_at_a_rank_keeps_no_tensor_alive(labs, ask):
    assert ask(labs(1)[:], "memory.peak", WORKS_WHILE_ASKED) == [4004], "a tensor and its sum"


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
