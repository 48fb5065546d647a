"""Every fault ends in a verdict in time, and the next cell runs. `make faults` prints the table."""

import os
import re
import signal
import threading
import time

import pytest

from labkit import processes
from labkit.cell import CellError, follow, interrupts_noted
from labkit.errors import LabError

from .table import ACTIVITIES, CELLS, FAULTS, IDLE_FAULTS

rows = []


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, seconds, after in rows:
        print(f"{name.ljust(width)}  {seconds:5.2f} s  {after}")


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
    vital = {"rank 1": lab.ranks[1].process(), **lab._engines._vital()}
    vital[fault.victim].send_signal(getattr(signal, fault.signal))


@pytest.mark.parametrize("doing", ACTIVITIES)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault_while_a_cell_runs(labs, fault, doing):
    lab, struck = labs(2), []
    if "DDP" in doing:
        run(lab, "import torch._dynamo")  # DDP does on first use, and an import is never cut in two
    lab_id = lab._engines.lab_id

    def later():
        struck.append(time.monotonic())
        strike(lab, fault)

    timer = threading.Timer(0.7, later)
    timer.start()
    with pytest.raises((CellError, LabError)) as caught:
        run(lab, ACTIVITIES[doing])
    seconds = time.monotonic() - struck[0]
    timer.join()
    assert re.search(fault.says, str(caught.value)), caught.value
    assert seconds < fault.seconds
    if not fault.ranks_survive:
        assert processes.of_lab(lab_id) == []
    after = next_cell_runs(lab)
    assert after == ("same ranks" if fault.ranks_survive else "new ranks")
    rows.append((f"{fault}, {doing}", seconds, after))


@pytest.mark.parametrize("fault", IDLE_FAULTS, ids=str)
def test_fault_while_idle(labs, fault):
    lab = labs(2)
    start = time.monotonic()
    strike(lab, fault)
    with pytest.raises(LabError, match=fault.says) as caught:
        while time.monotonic() < start + 5:
            run(lab, "rank")
    seconds = time.monotonic() - start
    assert "lab.restart()" in caught.value.fix
    rows.append((f"{fault}, idle", seconds, next_cell_runs(lab)))


@pytest.mark.parametrize("name", CELLS)
def test_cell_that_goes_wrong(labs, name):
    code, says = CELLS[name]
    lab, start = labs(2), time.monotonic()
    with pytest.raises((CellError, LabError)) as caught:
        run(lab, code)
    seconds = time.monotonic() - start
    assert re.search(says, str(caught.value), re.DOTALL), caught.value
    assert seconds < 3.0
    rows.append((name, seconds, next_cell_runs(lab)))
    assert rows[-1][-1] == "same ranks"


@pytest.mark.parametrize(
    "code", ["import os\nif rank == 1:\n    os._exit(7)\ndist.barrier()"], ids=["os._exit"]
)
def test_a_rank_that_leaves(labs, code):
    lab, start = labs(2), time.monotonic()
    with pytest.raises(LabError, match=r"rank 1 .* died: .*7"):
        run(lab, code)
    seconds = time.monotonic() - start
    assert seconds < 3.0
    rows.append(("os._exit", seconds, next_cell_runs(lab)))


QUIET = {
    "uneven computing": "import time\nend = time.monotonic() + SECONDS * (rank + 1) / 2\n"
    "while time.monotonic() < end:\n    sum(range(1000))\ndist.barrier()",
    "a rank asleep": "import time\ntime.sleep(SECONDS * rank)\ndist.barrier()",
    "a long C call": "if rank:\n    import ctypes\n    ctypes.PyDLL(None).sleep(SECONDS)\ndist.barrier()",
    "a sub-process": "import subprocess\nif rank:\n    subprocess.run(['sleep', 'SECONDS'])\ndist.barrier()",
}


@pytest.mark.parametrize("seconds", [4, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("doing", QUIET)
def test_no_false_alarm(labs, doing, seconds):
    start = time.monotonic()
    run(labs(2), QUIET[doing].replace("SECONDS", str(seconds)))
    assert time.monotonic() - start >= seconds * 0.9
