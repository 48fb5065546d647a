"""Wrong mpi4py programs are told in time, by cause, rank and line, and cost no rank; right ones are not."""

import re
import time

import pytest

from labkit import LabError, launch
from labkit.lab.cell import follow
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from tests.conftest import in_tiers

from .mpi4py_programs import DEATHS, RIGHT, START, WRONG

LIMIT = 3.0  # seconds until the verdict


def run(lab, code):
    lab.require_running()
    outcome = follow(lab, lab[:].execute(START + code, silent=False, block=False))
    outcome.raise_for_failure()
    return outcome


def test_there_are_enough():
    assert len(WRONG) + len(DEATHS) >= 25 and len(RIGHT) >= 25


@pytest.mark.parametrize("name", in_tiers(WRONG, 2, 8))
def test_a_wrong_program_is_told(labs, in_time, name):
    lab, (code, says) = labs(2), WRONG[name]
    pids, start = [r.pid for r in lab.ranks], time.monotonic()
    with pytest.raises(CellError) as told:
        run(lab, code)
    assert in_time(time.monotonic() - start, LIMIT)
    assert re.search(says.replace("number 1", r"number \d+"), str(told.value), re.DOTALL), told.value
    assert not run(lab, "comm.send(me, 1 - me)\nassert comm.recv() + comm.allreduce(1) == 3 - me").notes
    assert pids == [r.pid for r in lab.ranks]


@pytest.mark.parametrize("name", in_tiers(RIGHT, 6, 8))
def test_a_right_program_is_not(labs, name):
    outcome = run(labs(2), RIGHT[name])
    assert not outcome.notes and not any(said.stderr for said in outcome.said)


@pytest.mark.parametrize("name", in_tiers(DEATHS, 0, 2))
def test_a_death_is_told(in_time, name):
    code, says = DEATHS[name]
    lab = Lab(launch.plan(2))
    try:
        start = time.monotonic()
        with pytest.raises(LabError, match=says):
            run(lab, code)
        assert in_time(time.monotonic() - start, LIMIT)
    finally:
        lab.stop()
