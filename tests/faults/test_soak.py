"""Many interrupts, many ranks, many labs."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from labkit import launch, processes
from labkit.cell import CellError
from labkit.lab import Lab

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


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.nightly)])
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


@pytest.mark.nightly
def test_five_labs_at_once_do_not_disturb_each_other():
    with ThreadPoolExecutor(5) as pool:
        labs = list(pool.map(lambda n: Lab(launch.plan(4)), range(5)))
        try:
            for n, lab in enumerate(labs):
                lab[:]["mine"] = n
            labs[0].stop()
            outcomes = pool.map(lambda lab: run(lab, "x = torch.ones(1)\ndist.all_reduce(x)\nmine"), labs[1:])
            assert [{s.words() for s in o.said} for o in outcomes] == [{"1"}, {"2"}, {"3"}, {"4"}]
        finally:
            for lab in labs:
                lab.stop()
