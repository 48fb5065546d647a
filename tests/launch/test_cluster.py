"""A start whose processes end, or stand still, under its eyes says so."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psutil
import pytest

from labkit import LabError
from labkit.launch import MPI, Plan, living, plan, processes
from labkit.launch.cluster import Start
from labkit.launch.engines import Engines
from tests.waiting import until


@pytest.mark.parametrize("ended", ["controller", "mpiexec"])
def test_what_has_just_ended_cannot_be_watched(ended, tmp_path):
    gone = psutil.Popen([sys.executable, "-c", ""], stdout=subprocess.DEVNULL)
    gone.wait()
    controller, mpiexec = (gone if name == ended else psutil.Process() for name in ("controller", "mpiexec"))
    cluster = SimpleNamespace(
        controller=SimpleNamespace(process=controller), engine_set=SimpleNamespace(process=mpiexec)
    )
    start = Start(Plan(2, MPI("mpich", "5.0", "mpiexec")), tmp_path, "")
    with pytest.raises(LabError, match="2 ranks"):
        start._watch(cluster)


@pytest.mark.ranks
@pytest.mark.skipif(sys.platform != "linux", reason="only there ranks are forked from one process")
@pytest.mark.parametrize("name", ["labkit.rank.forkserver", "ipyparallel.controller"])
def test_what_is_stopped_while_a_lab_starts_is_told(name):
    """The start waited for it until its 120 s were over, or 60 for how to reach the controller."""
    mine, stopped = psutil.Process(), []
    there = mine.children()

    def stop() -> None:
        def found() -> bool:
            new = [p for p in mine.children() if p not in there]
            stopped[:] = [p for p in new if processes.said(p) == name]
            return bool(stopped)

        assert until(found)
        stopped[0].send_signal(signal.SIGSTOP)

    began = time.monotonic()
    with ThreadPoolExecutor() as beside, pytest.raises(LabError) as caught:
        strike = beside.submit(stop)
        Engines.start(plan(2), living.identity(mine))
    strike.result()
    assert f"{name} (pid {stopped[0].pid}) is stopped (SIGSTOP)" == caught.value.found
    assert time.monotonic() - began < 30
    assert not living.is_alive(stopped[0])
