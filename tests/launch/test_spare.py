"""Spare ranks: there when new ones are needed, and otherwise as if they were not."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from labkit import LabError, launch
from labkit.lab.cell import follow
from labkit.lab.lab import Lab
from labkit.launch import keeper, living, processes, spare, spare_maker

pytestmark = pytest.mark.ranks


def wait_until(true, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def spares(lab):
    """The processes of a lab's spare set, but its keeper and the one that makes it."""
    found = processes.of_lab(lab.spare._order.folder.name) if lab.spare._order else []
    return [p for p in found if not {"labkit.launch.keeper", "labkit.launch.spare_maker"} & set(command(p))]


def ranks(found):
    forked = [p for p in found if "labkit.rank.forkserver" in command(p)]
    return [p for p in forked if p.ppid() in {server.pid for server in forked}]


def command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def stopped(found):
    return bool(found) and all(p.status() == psutil.STATUS_STOPPED for p in found)


@pytest.fixture(scope="module")
def lab(spare_ranks):
    lab = Lab(launch.plan(2))
    yield lab
    lab.stop()


def run(lab, code):
    lab.require_running()
    return [s.words() for s in follow(lab, lab[:].execute(code, silent=False, block=False)).said]


@pytest.mark.slow
def test_preparation_stands_still_while_a_cell_runs(lab):
    wait_until(lambda: ranks(spares(lab)))
    with lab.spare.held():
        wait_until(lambda: stopped(ranks(spares(lab))))
        spent = sum(sum(p.cpu_times()[:2]) for p in ranks(spares(lab)))
    assert run(lab, "import time; time.sleep(2.5); rank") == ["0", "1"]
    assert sum(sum(p.cpu_times()[:2]) for p in ranks(spares(lab))) < spent + 0.5
    wait_until(lab.spare.is_ready)


def test_new_ranks_are_the_spare_ones_and_work(lab):
    first = [r.process() for r in lab.ranks]
    wait_until(lab.spare.is_ready)
    prepared = spares(lab)
    assert stopped(prepared), "they wait, and take no time"
    made = {p.pid for p in ranks(prepared)}
    assert len(made) == 2
    lab[0]["x"] = 1
    lab.ranks[1].process().kill()
    with pytest.raises(LabError, match="rank 1"):
        while True:
            lab.require_running()
    lab.restart()
    assert {r.pid for r in lab.ranks} == made
    assert run(lab, "x = torch.ones(1)\ndist.all_reduce(x)\nint(x), rank") == ["(2, 0)", "(2, 1)"]
    assert not any(map(living.is_alive, first))
    assert lab.spare._order.folder != lab._engines.folder, "and the next are being prepared"
    lab.ranks[0].process().kill()
    with pytest.raises(LabError, match=r"rank 0 .* died: .*[Kk]illed"):
        while True:
            lab.require_running()
    name = lab.spare._order.folder.name
    lab.stop()
    assert processes.of_lab(name) == [], "they end with the lab"
    assert not any(map(living.is_alive, prepared))


@pytest.mark.parametrize("other", ["size", "environment", "folder"])
def test_what_was_prepared_for_something_else_is_not_taken(labs, spare_ranks, tmp_path, monkeypatch, other):
    monkeypatch.setattr(spare, "QUIET", 60.0)  # so that nothing starts
    one, plan = spare.Spare(), labs(1).plan
    one.prepare(plan, labs(1)._engines, ())
    maker, folder = psutil.Process(one._maker.pid), one._order.folder
    folder.mkdir()
    folder.joinpath(spare_maker.READY).touch()
    if other == "environment":
        monkeypatch.setenv("NCCL_DEBUG", "INFO")
    if other == "folder":
        monkeypatch.chdir(tmp_path)
    assert one.is_ready()
    assert one.take(launch.resized(plan, 2) if other == "size" else plan) is None
    assert not one.is_ready() and not folder.exists() and not living.is_alive(maker)


@pytest.mark.parametrize("why", ["switched off", "too many"])
def test_no_spare(labs, spare_ranks, monkeypatch, why):
    if why == "switched off":
        monkeypatch.setenv(spare.SPARE, "0")
    else:
        monkeypatch.setattr(os, "cpu_count", lambda: 0.4)
    one = spare.Spare()
    one.prepare(labs(1).plan, labs(1)._engines, ())
    assert one._maker is None and not one.is_ready() and one.take(labs(1).plan) is None
    one.hold(), one.release(), one.discard()


DISCARDED = """
import os, signal, sys, types
from pathlib import Path
from labkit import launch
from labkit.launch import processes, spare

def struck(found, suspend=processes._suspend):
    suspend(found)
    os.kill(os.getpid(), int(sys.argv[2]))

one = spare.Spare()
one.prepare(launch.plan(1), types.SimpleNamespace(folder=Path(sys.argv[1])), ())
print(one._maker.pid, flush=True)
sys.stdin.readline()
processes._suspend = struck
try:
    one.discard()
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("strike", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_a_notebook_that_dies_while_it_discards_the_spare_leaves_nothing(spare_ranks, tmp_path, strike):
    owner = subprocess.Popen(
        [sys.executable, "-c", DISCARDED, tmp_path, str(int(strike))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    maker = psutil.Process(int(owner.stdout.readline()))
    owner.communicate("now\n", timeout=60)
    assert owner.returncode == -signal.SIGKILL
    wait_until(lambda: not living.is_alive(maker), seconds=20.0)


def test_another_notebook_that_adopts_the_lab_ends_the_spare_of_the_first(labs, spare_ranks):
    engines, first, second = labs(1)._engines, spare.Spare(), spare.Spare()
    first.prepare(labs(1).plan, engines, ())
    maker = psutil.Process(first._maker.pid)
    second.prepare(labs(1).plan, engines, ())
    try:
        assert not living.is_alive(maker) and living.is_alive(psutil.Process(second._maker.pid))
        first._maker.wait(60)  # dead it is; its pipe breaks when the last of its threads has ended, too
        first.hold()
        assert not first.is_ready() and first._maker is None, "it notices, and has none"
    finally:
        first.discard(), second.discard()


OWNER = textwrap.dedent("""
    import sys, time
    from labkit import launch
    from labkit.lab.lab import Lab
    from labkit.launch import spare
    spare.QUIET = 0.0
    lab = Lab(launch.plan(1))
    while sys.argv[1] == "ready" and not lab.spare.is_ready():
        time.sleep(0.05)
    print(lab._engines.lab_id, lab.spare._order.folder.name, flush=True)
    sys.stdin.read()
""")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["preparing", "ready"])
def test_a_killed_owner_leaves_no_spare_ranks(spare_ranks, when):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, when], **pipes)
    names = owner.stdout.readline().split()
    if when == "preparing":
        wait_until(lambda: ranks(processes.of_lab(names[1])))
    assert len(names) == 2 and all(map(processes.of_lab, names))
    owner.send_signal(signal.SIGKILL)
    owner.wait(60)
    wait_until(lambda: not any(map(processes.of_lab, names)))
    owner.stdin.close(), owner.stdout.close()


def test_taken_ranks_belong_to_whom_they_are_given(tmp_path):
    sleeper = psutil.Popen(["sleep", "60"])
    try:
        keeper.note(tmp_path / keeper.OWNER, living.identity(sleeper))
        assert keeper.has_owner(tmp_path)
        keeper.note(tmp_path / keeper.OWNER, living.identity(psutil.Process()))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert keeper.has_owner(tmp_path) and not keeper.has_owner(tmp_path / "none")
