"""The benchmark "trace" compares with the same way to MPI without its hooks, and not with something else."""

import json
import subprocess
import sys

import pytest

CALLS = """
import json, sys
import torch
import torch.distributed as dist
import labkit.mpi
labkit.mpi.init()
from tests.bench import unrecorded
from labkit.mpi.record import history
from labkit.mpi.world import existing

OF_A_GROUP = "group", "channel", "call", "watch"
hooked, plain, remembering = dist.group.WORLD, dist.new_group(), dist.new_group()
plain.__class__, remembering.__class__ = unrecorded.Group, unrecorded.RememberingGroup

def calls(group):
    "What an all_reduce calls, how often it is remembered, and what its work then has."
    tensor, found, kept = torch.arange(4.0), [], []
    def note(frame, event, function):
        if event == "call":
            found.append(frame.f_code.co_name)
        elif event == "c_call":
            remembered = getattr(function, "__self__", None) is history.calls
            (kept if remembered else found).append(function.__qualname__)
    dist.all_reduce(tensor, group=group)  # what only the first call needs
    sys.setprofile(note)
    dist.all_reduce(tensor, group=group)
    sys.setprofile(None)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    work.wait()
    assert torch.equal(tensor, torch.arange(4.0)), "of one rank"
    then = {name: repr(value) for name, value in vars(work).items() if name not in OF_A_GROUP}
    return found, len(kept), then

found = []
for existing().checked in (False, True):
    found.append([calls(plain), calls(remembering), calls(hooked)])
print(json.dumps(found))
"""


def said_by(program: str) -> list:
    command = [sys.executable, "-c", program]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=True).stdout)


@pytest.mark.ranks
def test_both_call_the_same_functions_in_the_same_order_and_leave_the_same():
    unchecked, checked = said_by(CALLS)
    for (plain, *without), (remembering, *with_history), (hooked, *recording) in (unchecked, checked):
        assert plain == remembering == hooked
        assert {"begin", "wait", "finish", "pump"} <= set(plain)
        assert [kept for kept, _ in (without, with_history, recording)] == [0, 2, 2]
        assert without[1] == with_history[1] == recording[1]
    assert "reached" in checked[0][0] and "reached" not in unchecked[0][0]


ASKED = """
import json, torch
import torch.distributed as dist
import labkit.mpi
labkit.mpi.init()
from tests.bench import unrecorded
from labkit.mpi.record import record
from labkit.mpi.work import Work

class Asked(type(record)):
    def __getattribute__(self, name):
        asked.append(name)
        return super().__getattribute__(name)

plain, asked = dist.new_group(), []
plain.__class__ = unrecorded.Group
record.__class__ = Asked
Work.recorded = property(lambda self: asked.append("recorded"))

def of(group):
    asked.clear()
    dist.all_reduce(torch.ones(2), group=group)
    return list(asked)

print(json.dumps([of(plain), of(dist.group.WORLD)]))
"""


@pytest.mark.ranks
def test_only_one_of_them_asks_whether_to_record():
    plain, hooked = said_by(ASKED)
    assert plain == [] and {"records", "recorded"} <= set(hooked)
