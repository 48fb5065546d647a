"""Interrupts land where nothing is left half done. Real signals, in real ranks."""

import time

import pytest

from labkit.lab import remote
from labkit.lab.cell import follow
from labkit.lab.outcome import CellError
from labkit.launch.interrupts import interrupts_noted
from tests.waiting import NO_HURRY


@pytest.fixture(autouse=True)
def ranks_come_back(monkeypatch):
    """However late they are: what they have done by then is what is asked here."""
    monkeypatch.setattr(remote, "RETURN_DEADLINE", NO_HURRY)


def run(lab, code, deadline=None):
    with interrupts_noted() as interrupted:
        result = lab[:].execute(code, silent=False, block=False)
        outcome = follow(lab, result, deadline, interrupted=interrupted)
    outcome.raise_for_failure()
    return outcome


SLOW_STEP = """
import os
file = os.path.join("torch/optim/", "slow.py")
body = ["log.append('begun')", "time.sleep(1)", "log.append('ended')"]
source = "import time" + chr(10) + "def step(log): " + "; ".join(body)
log, names = [], {}
exec(compile(source, file, "exec"), names)
step = names["step"]
"""


def test_an_optimiser_step_is_never_cut_in_two(labs):
    lab = labs(2)
    run(lab, SLOW_STEP)
    with pytest.raises(CellError, match="deadline"):
        run(lab, "while True:\n    step(log)", deadline=3)
    for log in lab[:]["log"]:
        assert log and log.count("begun") == log.count("ended")


def test_a_debugger_still_traces_after_an_interrupt_that_had_to_wait(labs):
    lab = labs(2)
    run(lab, SLOW_STEP + "import sys\nbefore = sys.gettrace()\nsys.settrace(tracer := lambda *event: None)")
    with pytest.raises(CellError, match="deadline"):
        run(lab, "while True:\n    step(log)", deadline=3)
    said = run(lab, "kept = sys.gettrace() is tracer\nsys.settrace(before)\nkept").said
    assert [s.words() for s in said] == ["True", "True"]


def test_an_import_is_never_cut_in_two(labs, tmp_path):
    lab = labs(2)
    (tmp_path / "slow_module.py").write_text(
        "import time\nfor _ in range(100):\n    time.sleep(0.01)\nwhole = True\n"
    )
    run(lab, f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    with pytest.raises(CellError, match="deadline"):
        run(lab, "import slow_module\nwhile True:\n    sum(range(100))", deadline=0.5)
    assert [s.words() for s in run(lab, "import slow_module; slow_module.whole").said] == ["True", "True"]


def test_an_idle_rank_ignores_an_interrupt(labs):
    lab = labs(2)
    lab.interrupt()
    time.sleep(0.2)
    assert [s.words() for s in run(lab, "rank").said] == ["0", "1"]


def test_a_failed_cell_does_not_swallow_the_next(labs):
    lab = labs(2)
    for _ in range(20):
        with pytest.raises(CellError, match="ZeroDivisionError"):
            run(lab, "1 / 0")
        assert [s.words() for s in run(lab, "rank").said] == ["0", "1"]


STRUCK_WHILE_IT_POLLS = """
import random, signal, threading
if rank == 0:
    work = dist.irecv(torch.ones(1), 1)
    before, struck = signal.signal(signal.SIGALRM, signal.default_int_handler), 0
    while struck < 500:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 4e-5))
            while True:
                work.poll()
        except KeyboardInterrupt:
            struck += 1
    signal.signal(signal.SIGALRM, before)
    dist.send(torch.ones(1), 1)
    waiting = threading.Thread(target=work.wait)
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()
else:
    dist.recv(torch.ones(1), 0)
    dist.send(torch.ones(1), 0)
"""


def test_other_threads_move_messages_after_interrupts(labs):
    """An interrupt between `acquire()` and its `try` left the lock held: one of six that met a poll."""
    run(labs(2), STRUCK_WHILE_IT_POLLS)
