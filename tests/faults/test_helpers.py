"""What helps the ranks may end or be stopped too: it is told, or replaced."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labkit import LabError
from labkit.launch import keeper, living, processes
from tests.waiting import WITHIN, until

from .moments import once_begun
from .test_faults import run

pytestmark = pytest.mark.ranks


@pytest.mark.slow
def test_the_end_of_hydras_proxy_is_told_as_such(labs, in_time, tmp_path):
    lab, ended = labs(2), []
    proxy = keeper.vital(lab._engines.folder).get("hydra_pmi_proxy")
    if proxy is None:
        pytest.skip("this MPI has none")

    def end():
        ended.append(time.monotonic())
        proxy.kill()

    with (
        once_begun(tmp_path, end) as first,
        pytest.raises(LabError, match="found: hydra_pmi_proxy died") as caught,
    ):
        run(lab, first + "import time; time.sleep(100)")
    assert in_time(time.monotonic() - ended[0], 4.5) and "lab.restart()" in caught.value.fix


@pytest.mark.parametrize("how", ["kill", "suspend"])
def test_a_keeper_that_is_killed_or_stopped_is_replaced(labs, how):
    folder = labs(2)._engines.folder
    [first] = keeper.noted(folder / keeper.SELF)
    getattr(first, how)()
    deadline = time.monotonic() + 60
    while (now := keeper.noted(folder / keeper.SELF)) == [first] or not any(map(living.is_alive, now)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert labs(2).is_running() and not living.is_alive(first)


OWNER = """
import sys, labkit
lab = labkit.start(2)
print(lab._engines.folder, flush=True)
sys.stdin.read()
"""
HELPERS = ("keeper", "the controller", "mpiexec", "hydra_pmi_proxy", "fork server")
STRUCK_FIRST = [
    pytest.param(names, how, marks=() if names == ("keeper",) else pytest.mark.slow)
    for names in (*((name,) for name in HELPERS), ("keeper", "the controller"), ("keeper", "fork server"))
    for how in ("kill", "suspend")
]


@pytest.mark.parametrize(("names", "how"), STRUCK_FIRST)
def test_nothing_stays_when_the_kernel_is_killed_just_after(names, how):
    """In that time nobody has been replaced."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        folder = Path(owner.stdout.readline().strip())
        there = dict(keeper.vital(folder), keeper=keeper.noted(folder / keeper.SELF)[0])
        of_lab = processes.of_lab(folder.name)
        there["fork server"] = next(p for p in of_lab if "labkit.rank.forkserver" in p.cmdline())
        for name in names:
            if there.get(name):  # not every MPI has them all
                getattr(there[name], how)()
        time.sleep(0.2)
    finally:
        owner.kill()
        owner.communicate()
    try:
        assert until(lambda: not processes.of_lab(folder.name), WITHIN), processes.of_lab(folder.name)
        assert until(lambda: not folder.exists())
    finally:
        keeper.end(folder)


@pytest.mark.parametrize("name", ["rank 1", "the controller"])
def test_a_stopped_process_is_told_and_nothing_is_lost(labs, tmp_path, name):
    lab, told = labs(2), tmp_path / "told"
    begun = tmp_path / "begun"
    begun.mkdir()
    run(lab, "x = rank")
    process = {"rank 1": lab.ranks[1].process(), **keeper.vital(lab._engines.folder)}[name]
    until_told = f"import os, time\nwhile not os.path.exists({str(told)!r}):\n    time.sleep(0.05)\n"
    try:
        with (
            once_begun(begun, lambda: process.send_signal(signal.SIGSTOP)) as first,
            pytest.raises(LabError, match=rf"{name}.* is stopped \(SIGSTOP\)") as caught,
        ):
            run(lab, first + until_told + "dist.barrier()")
        assert f"kill -CONT {process.pid}" in caught.value.fix
    finally:
        told.touch()
        process.send_signal(signal.SIGCONT)
    assert [s.words() for s in run(lab, "x").said] == ["0", "1"]
