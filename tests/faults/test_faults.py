"""Every fault ends in a verdict in time, and the next cell runs. `make faults` prints the table."""

import os
import re
import signal
import time
from contextlib import nullcontext

import pytest

from labkit import LabError, launch
from labkit.lab.cell import follow
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.launch import keeper, processes
from labkit.launch.interrupts import interrupts_noted
from tests.conftest import in_tiers

from . import table, written
from .moments import once_begun
from .table import ACTIVITIES, CELLS, FAULTS, GLOO, IDLE, IDLE_FAULTS, ITSELF, LEAVES
from .written import Row, first_line

rows: list[Row] = []


def struck_while_doing():
    """Each fault with each activity; in `make test` each activity once, and so each fault at least once."""
    for place, doing in enumerate(ACTIVITIES):
        for turn, fault in enumerate(FAULTS):
            tier = (turn - place) % len(FAULTS)
            marks = [] if tier == 0 else [pytest.mark.slow] if tier == 1 else [pytest.mark.nightly]
            yield pytest.param(fault, doing, id=f"{fault}-{doing}", marks=marks)


@pytest.fixture(scope="module", autouse=True)
def printed(pytestconfig):
    yield
    print("\n" + "\n".join(map(str, rows)))
    if pytestconfig.getoption("--write", False):
        tried = {(r.fault, r.doing): r for r in rows}
        written.write([tried[row] for row in table.rows()])  # a KeyError: not all were run, or one failed


def test_what_is_written_of_the_faults_is_what_is_tried():
    assert [(fault, doing) for fault, doing, *_ in written.read()] == table.rows()
    assert len(table.rows()) >= 40 and all(verdict for _, _, verdict, *_ in written.read())


def run(lab, code, deadline=None):
    """Run a cell as %%px does."""
    lab.require_running()
    with interrupts_noted() as interrupted:
        result = lab[:].execute(code, silent=False, block=False)
        outcome = follow(lab, result, deadline, interrupted=interrupted)
    outcome.raise_for_failure()
    return outcome


def next_cell_runs(lab) -> str:
    """The proof that nothing is lost: a collective over all ranks, on ranks that are there or new."""
    pids = [r.pid for r in lab.ranks]
    try:
        lab.require_running()
    except LabError:
        lab.restart()
    said = run(lab, "x = torch.ones(1)\ndist.all_reduce(x)\nint(x)").said
    assert [s.words() for s in said] == ["2", "2"]
    return "same ranks" if [r.pid for r in lab.ranks] == pids else "new ranks"


def strike(lab, fault):
    """Let the fault happen to a running lab."""
    if not fault.signal:
        os.kill(os.getpid(), signal.SIGINT)
        return
    vital = {"rank 1": lab.ranks[1].process(), **keeper.vital(lab._engines.folder)}
    vital[fault.victim].send_signal(getattr(signal, fault.signal))


@pytest.mark.parametrize(("fault", "doing"), list(struck_while_doing()))
def test_fault_while_a_cell_runs(labs, in_time, tmp_path, fault, doing):
    lab, struck = labs(2), []
    if "DDP" in doing:
        run(lab, "import torch._dynamo")  # DDP does on first use, and an import is never cut in two
    lab_id = lab._engines.lab_id

    def later():
        struck.append(time.monotonic())
        strike(lab, fault)

    with once_begun(tmp_path, later) as first, pytest.raises((CellError, LabError)) as caught:
        run(lab, first + ACTIVITIES[doing])
    seconds = time.monotonic() - struck[0]
    assert re.search(fault.says, str(caught.value)), caught.value
    assert in_time(seconds, fault.seconds)
    deadline = time.monotonic() + 20  # even what is killed takes its time to go
    while not fault.ranks_survive and (left := processes.of_lab(lab_id)):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    after = next_cell_runs(lab)
    assert after == ("same ranks" if fault.ranks_survive else "new ranks")
    rows.append(Row(str(fault), doing, first_line(caught.value), seconds, after))


@pytest.mark.parametrize("fault", in_tiers(IDLE_FAULTS, 1, 2))
def test_fault_while_idle(labs, in_time, fault):
    lab = labs(2)
    start = time.monotonic()
    strike(lab, fault)
    with pytest.raises(LabError, match=fault.says) as caught:
        while time.monotonic() < start + 60:
            run(lab, "rank")
    seconds = time.monotonic() - start
    assert "lab.restart()" in caught.value.fix and in_time(seconds, fault.seconds)
    with pytest.raises(LabError, match=r"as was said before\nfix: +lab.restart\(\)"):
        run(lab, "rank")
    rows.append(Row(str(fault), IDLE, first_line(caught.value), seconds, next_cell_runs(lab)))


@pytest.mark.parametrize("name", in_tiers(CELLS, len(CELLS) // 2, len(CELLS) // 4))
def test_cell_that_goes_wrong(labs, in_time, name):
    code, says = CELLS[name]
    lab, start = labs(2), time.monotonic()
    with pytest.raises((CellError, LabError)) as caught:
        run(lab, code)
    seconds = time.monotonic() - start
    assert re.search(says, str(caught.value), re.DOTALL), caught.value
    assert in_time(seconds, 3.0)
    rows.append(Row(name, ITSELF, first_line(caught.value), seconds, next_cell_runs(lab)))
    assert rows[-1].after == "same ranks"


@pytest.mark.parametrize("name", in_tiers(LEAVES, 1, 2))
def test_a_rank_that_leaves(labs, in_time, name):
    code, says = LEAVES[name]
    lab, start = labs(2), time.monotonic()
    with pytest.raises(LabError, match=rf"rank 1 .* died: .*{says}") as caught:
        run(lab, code)
    seconds = time.monotonic() - start
    assert in_time(seconds, 3.0)
    is_said_once(lab, says)
    rows.append(Row(name, ITSELF, first_line(caught.value), seconds, next_cell_runs(lab)))


def is_said_once(lab, cause: str) -> None:
    """How a lab has ended is told by one cell; what is asked of it after that says what to do."""
    for ask in (lambda: run(lab, "rank"), lambda: lab[0]["rank"], lambda: run(lab, "rank")):
        with pytest.raises(LabError, match=r"as was said before\nfix: +lab.restart\(\)") as again:
            ask()
        assert not re.search(cause, str(again.value))


def test_a_death_and_an_interrupt_at_once_end_in_the_death(labs, tmp_path):
    lab = labs(2)
    vital = keeper.vital(lab._engines.folder)

    def strike():
        vital["the controller"].kill()
        os.kill(os.getpid(), signal.SIGINT)

    with once_begun(tmp_path, strike) as first, pytest.raises(LabError, match="the controller died"):
        run(lab, first + ACTIVITIES["computing"])


QUIET = {
    "uneven computing": "import time\nend = time.monotonic() + SECONDS * (rank + 1) / 2\n"
    "while time.monotonic() < end:\n    sum(range(1000))\ndist.barrier()",
    "a rank asleep": "import time\ntime.sleep(SECONDS * rank)\ndist.barrier()",
    "a long C call": "if rank:\n    import ctypes\n    ctypes.PyDLL(None).sleep(SECONDS)\ndist.barrier()",
    "a sub-process": "import subprocess\nif rank:\n    subprocess.run(['sleep', 'SECONDS'])\ndist.barrier()",
}


@pytest.mark.parametrize("seconds", [4, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("doing", in_tiers(QUIET, 1, 1))
def test_no_false_alarm(labs, doing, seconds):
    start = time.monotonic()
    run(labs(2), QUIET[doing].replace("SECONDS", str(seconds)))
    assert time.monotonic() - start >= seconds * 0.9


@pytest.fixture(scope="module")
def gloo(spare_ranks):
    """A lab with backend gloo, and spare ranks."""
    lab = Lab(launch.plan(2, backend="gloo"))
    yield lab
    lab.stop()


@pytest.mark.parametrize("row", in_tiers(GLOO, 1, 2))
def test_what_ends_ranks_that_wait_in_gloo(gloo, in_time, tmp_path, row):
    fault, _, doing = row.partition(", ")
    code, limit = (ACTIVITIES[doing], 2.0) if doing else (CELLS[fault][0], 3.0)
    deadline = time.monotonic() + 60
    while not gloo.spare.is_ready():
        assert time.monotonic() < deadline, "no spare ranks"
        time.sleep(0.1)
    pids, begun = [r.pid for r in gloo.ranks], [time.monotonic()]

    def interrupt():
        begun.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    moment = once_begun(tmp_path, interrupt) if doing else nullcontext("")
    with moment as first, pytest.raises(CellError, match="all ranks are new and empty") as caught:
        run(gloo, first + code)
    seconds = time.monotonic() - begun[-1]
    assert in_time(seconds, limit)
    after = next_cell_runs(gloo)
    assert after == "same ranks" and pids != [r.pid for r in gloo.ranks], "new ones when the verdict came"
    where = f"{doing or ITSELF}, gloo"
    rows.append(Row(fault, where, first_line(caught.value), seconds, "new ranks, ready with the verdict"))


BACKWARD = """
import time
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(64, 64))
for step in range(3):  # the second rebuilds DDP's buckets
    time.sleep(1.5 * rank)
    model(torch.ones(8, 64)).sum().backward()
"""


@pytest.mark.slow
def test_backward_in_gloo_waits_for_the_slow_and_ends_without_the_absent(gloo):
    run(gloo, BACKWARD)
    with pytest.raises(CellError, match="rank 1 finished the cell(?s:.*)rank 0 in all_reduce in backward"):
        run(gloo, "if rank == 0:\n    model(torch.ones(8, 64)).sum().backward()")


DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
IN_GLOO = {
    "wait of an isend": ("dist.isend(torch.zeros(1), dst=1 - rank).wait()", "each waits for another"),
    "wait of an irecv": ("dist.irecv(torch.zeros(1), src=1 - rank).wait()", "each waits for another"),
    "wait of a collective": (
        "if rank == 0:\n    dist.all_reduce(torch.ones(1), async_op=True).wait()",
        "rank 1 finished the cell(?s:.*)rank 0 in all_reduce number",
    ),
    "sizes that differ": ("dist.all_reduce(torch.ones(1 + rank))", "nothing moves.*size(?s:.*)ranks 0-1 in"),
    "a DDP on one rank": (
        DDP + "if rank == 0:\n    DDP(torch.nn.Linear(4, 4))",
        "rank 1 finished the cell(?s:.*)rank 0 in DDP's comparison of parameters",
    ),
    "a step too many": (
        DDP + "model = DDP(torch.nn.Linear(64, 64))\nfor step in range(2 - rank):\n"
        "    model(torch.ones(8, 64)).sum().backward()",
        "rank 1 finished the cell(?s:.*)rank 0 in DDP's agreement on its buckets",
    ),
}


@pytest.mark.parametrize("name", in_tiers(IN_GLOO, 0, 2))
def test_what_waits_for_ever_in_gloo_is_told(gloo, in_time, name):
    code, says = IN_GLOO[name]
    run(gloo, "import torch._dynamo")  # DDP does on first use
    start = time.monotonic()
    with pytest.raises(CellError, match=says):
        run(gloo, code)
    assert in_time(time.monotonic() - start, 20)
    next_cell_runs(gloo)
