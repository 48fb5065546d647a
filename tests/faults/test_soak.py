"""Many interrupts, many ranks, many labs."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from labkit import launch
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.launch import processes

from .small import with_shared_memory
from .test_faults import next_cell_runs, run

TRAINING = """
import torch.nn.functional as F
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    x, y = torch.rand(16, 64), torch.randint(10, (16,))
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "times", [pytest.param(20, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.nightly)]
)
def test_interrupts_at_random_moments(labs, times):
    lab, moment = labs(2), random.Random(0)
    pids = [r.pid for r in lab.ranks]
    run(
        lab, TRAINING.replace("while True:", "for _ in range(2):")
    )  # what torch imports on first use takes seconds
    slowest = 0.0
    for _ in range(times):
        timer = threading.Timer(moment.uniform(0.0, 0.5), os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises((CellError, KeyboardInterrupt)) as caught:
            timer.start()
            run(lab, TRAINING)
            pytest.fail("the cell ended by itself")
        timer.join()
        assert caught.type is KeyboardInterrupt or str(caught.value).startswith("interrupted")
        start = time.monotonic()
        assert next_cell_runs(lab) == "same ranks"
        slowest = max(slowest, time.monotonic() - start)
    assert [r.pid for r in lab.ranks] == pids, "no rank was replaced"
    print(f"{times} interrupts; the slowest next cell took {slowest:.2f} s")


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_32_ranks_on_two_cores():
    lab = Lab(launch.plan(32))
    lab_id = lab._engines.lab_id
    try:
        outcome = run(lab, "x = torch.ones(1)\ndist.all_reduce(x)\nint(x)")
        assert {s.words() for s in outcome.said} == {"32"}
        with pytest.raises(CellError, match="deadline"):
            run(lab, "while True:\n    dist.all_reduce(torch.ones(1))", deadline=2)
        outcome = run(lab, "x = torch.ones(1)\ndist.all_reduce(x)\nint(x)")
        assert {s.words() for s in outcome.said} == {"32"}
    finally:
        lab.stop()
    assert processes.of_lab(lab_id) == []


OWNER = """
import sys
from labkit import launch
from labkit.lab.lab import Lab
from tests.faults.test_faults import run

lab = Lab(launch.plan(4))
print(lab._engines.lab_id, flush=True)
for line in sys.stdin:
    said = run(lab, line).said
    print(*[s.words() for s in said], flush=True)
"""


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_five_labs_of_five_owners_at_once_do_not_disturb_each_other():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    owners = [subprocess.Popen([sys.executable, "-c", OWNER], **pipes) for _ in range(5)]

    def tell(number, line):
        print(line, file=owners[number].stdin, flush=True)

    try:
        names = [owner.stdout.readline().strip() for owner in owners]
        assert len(set(names)) == 5 and all(map(processes.of_lab, names))
        for n in range(5):
            tell(n, f"mine = {n}; x = torch.ones(1); dist.all_reduce(x); int(x) * 10 + mine")
        for n, owner in enumerate(owners):
            assert owner.stdout.readline().split() == [str(40 + n)] * 4
        owners[0].kill()
        owners[0].wait(20)
        deadline = time.monotonic() + 60  # the machine is full
        while processes.of_lab(names[0]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for n in range(1, 5):
            tell(n, "x = torch.ones(1); dist.all_reduce(x); int(x) * 10 + mine")
            assert owners[n].stdout.readline().split() == [str(40 + n)] * 4
    finally:
        for owner in owners:
            owner.kill()
            owner.wait(20)
            owner.stdin.close(), owner.stdout.close()


STARTS = """
import json, os, sys, time
import psutil
from labkit import launch
from labkit.lab.lab import Lab
from labkit.launch import processes
from labkit.launch.runtime import RUNTIME

def found(lab_id):
    me = psutil.Process()
    return {
        "descriptors": me.num_fds(), "threads": me.num_threads(), "sockets": len(me.net_connections()),
        "children": len(me.children(recursive=True)), "processes of the lab": len(processes.of_lab(lab_id)),
        "folder of the lab": (RUNTIME / lab_id).exists(),
        "free shared memory": os.statvfs("/dev/shm").f_bfree, "files there": os.listdir("/dev/shm"),
    }

first = None
for _ in range(int(sys.argv[1])):
    lab = Lab(launch.plan(2))
    lab_id = lab._engines.lab_id
    lab.stop()
    while not first:  # once nothing changes: a thread that waited for ranks to die may be on its way out
        before = found(lab_id)
        time.sleep(2)
        first = before if found(lab_id) == before else None
    until = time.monotonic() + 30
    while found(lab_id) != first and time.monotonic() < until:
        time.sleep(0.05)
    print(json.dumps(found(lab_id)), flush=True)
"""


@pytest.mark.timeout(7300)
@pytest.mark.parametrize(
    "times", [pytest.param(5, marks=pytest.mark.slow), pytest.param(500, marks=pytest.mark.nightly)]
)
def test_each_start_and_stop_leaves_the_machine_as_the_first_one_did(times):
    """In 4 MB of shared memory, where one lab has room: if any of it were left, the next would not start."""
    done = with_shared_memory("4m", sys.executable, "-c", STARTS, str(times), seconds=min(times * 60, 7200))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == times, done.stderr
    assert told == [told[0]] * times
    assert told[0]["free shared memory"] == 4 * 2**20 // os.sysconf("SC_PAGE_SIZE")
    nothing = {"sockets": 0, "children": 0, "processes of the lab": 0, "folder of the lab": False}
    assert told[0] | nothing | {"files there": []} == told[0]


KILLS = """
import glob, os, random, signal, subprocess, sys, tempfile, time
from pathlib import Path
import psutil
from tests.faults.notebook import kind, of_labs
from tests.waiting import until

OWNER = "import labkit; labkit.start(3).stop()"
draw = random.Random(int(sys.argv[2]))

def files():
    return {*glob.glob("/dev/shm/*"), *glob.glob("/tmp/hydra_hwloc_xmlfile_*")}

for _ in range(int(sys.argv[1])):
    with tempfile.TemporaryDirectory() as runtime:
        before, environment = files(), os.environ | {"JUPYTER_RUNTIME_DIR": runtime}
        told = Path(runtime, "told").open("w")
        owner = subprocess.Popen([sys.executable, "-c", OWNER], env=environment, stdout=told, stderr=told)
        until(lambda: of_labs(runtime) or owner.poll() is not None)
        time.sleep(draw.uniform(0, 3))
        victim = draw.choice([owner, *of_labs(runtime)])
        name = "owner" if victim is owner else kind(victim)
        how = draw.choice([signal.SIGKILL, signal.SIGTERM])
        name += f", {how.name}"
        try:
            victim.send_signal(how)
        except psutil.NoSuchProcess:
            name += ", which had just ended"
        ended = until(lambda: owner.poll() is not None, 30)
        until(lambda: not of_labs(runtime) and files() == before, 30)
        left = [kind(process) for process in of_labs(runtime)] + sorted(files() - before)
        raw = "LabError" not in (said := Path(runtime, "told").read_text()) and "Traceback" in said
        print(name, *left, *(["the owner hangs"] * (not ended)), *([said] * raw), sep="|", flush=True)
        owner.kill()
        owner.wait()
        told.close()
"""


@pytest.mark.nightly  # where no other tests have labs, whose files would be taken for those of this one
@pytest.mark.timeout(7300)
def test_whoever_is_killed_while_a_lab_starts_leaves_nothing():
    """The owner, or any process of the lab, at a random moment of its start, or of its end after that."""
    seed, times = str(random.SystemRandom().randrange(10**6)), 200
    done = with_shared_memory("64m", sys.executable, "-c", KILLS, str(times), seed, seconds=7200)
    told = done.stdout.splitlines()
    print(Counter(told), seed)
    assert [line for line in told if "|" in line] == [] and len(told) == times, (seed, done.stderr)
