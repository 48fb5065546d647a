"""A wait below what labkit watches is told with rank and line; quiet work is not; the next cell is right."""

import re
import sys
import time

import pytest

from labkit.lab import diagnosis
from labkit.lab.cell import follow
from labkit.lab.outcome import CellError
from tests.conftest import in_tiers

from . import written
from .below_programs import DEAF, HEARD, QUIET, START

LIMIT = 10.0  # seconds until the verdict
DEADLINE = 120.0  # until a cell that is not told has failed
SOONER = 2.5
"""Seconds after which such a wait is told where there must be none, so that a quiet program may be short."""
FILE = written.FILE.with_name("BELOW.md")
HEAD = """# Waits below what labkit watches, and what is told of them

Each of these programs waits in a call that no watch of labkit's sees: a window, a file, a library's own, a
lock, a socket. The stacks alone tell that it never ends. The seconds are those to the verdict, in one run;
the next cell is right, on the ranks of the last column. All are in [below_programs.py](below_programs.py). To
renew this file:

    $ python -m pytest tests/faults/test_below.py -m "" -s --write

There are right programs too, which are quiet for longer, and of which nothing is told: {}.

"""
WRONG = {**DEAF, **HEARD}
rows: dict[str, tuple[str, ...]] = {}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process waits for")


@pytest.fixture(scope="module", autouse=True)
def printed(pytestconfig):
    yield
    if pytestconfig.getoption("--write", False):
        table = [(name, *rows[name]) for name in WRONG]  # a KeyError: one failed
        head = HEAD.format(", ".join(QUIET))
        written.write_table(FILE, head, ("program", "what is told", "seconds", "next cell"), table)


def run(lab, code, folder, quiet=0.0):
    lab.require_running()
    cell = START.format(folder=str(folder), quiet=quiet) + code
    outcome = follow(lab, lab[:].execute(cell, silent=False, block=False), DEADLINE)
    outcome.raise_for_failure()
    return outcome


def test_what_is_written_of_the_programs_is_what_is_tried():
    assert [name for name, *_ in written.read(FILE)] == [*WRONG]
    assert ", ".join(QUIET) in FILE.read_text()
    assert len(WRONG) >= 8 and len(QUIET) >= 8


def tell(lab, folder, monkeypatch, name: str) -> tuple[float, bool]:
    """Run a program that hangs, and compare what is told: after how many seconds, and if the ranks stay."""
    code, says = WRONG[name]
    pids, begun, told = [r.pid for r in lab.ranks], time.monotonic(), []
    own = diagnosis.Watch.look

    def look(watch, *seen):
        found = own(watch, *seen)
        told.extend([time.monotonic() - begun] if found else [])
        return found

    monkeypatch.setattr(diagnosis.Watch, "look", look)
    with pytest.raises(CellError) as caught:
        run(lab, code, folder)
    assert re.search(says, str(caught.value), re.DOTALL), caught.value
    same = [r.pid for r in lab.ranks] == pids
    lines = [line for line in str(caught.value).splitlines() if "brought back" not in line]
    short = re.sub(r"for \d+ s", "for 6 s", "<br>".join(lines))
    rows[name] = short, f"{told[0]:.1f}", "same ranks" if same else "new ranks"
    next_cell = "comm.send(me, 1 - me)\nassert comm.recv() + comm.allreduce(1) == 3 - me"
    assert not run(lab, next_cell, folder).notes
    return told[0], same


@pytest.mark.parametrize("name", in_tiers(DEAF, 1, 4))
def test_a_wait_that_hears_no_interrupt_is_told(labs, tmp_path, monkeypatch, in_time, name):
    seconds, same = tell(labs(2), tmp_path, monkeypatch, name)
    assert in_time(seconds, LIMIT) and not same


@pytest.mark.parametrize("name", in_tiers(HEARD, 1, 3))
def test_a_wait_that_hears_one_is_told_and_keeps_its_ranks(labs, tmp_path, monkeypatch, in_time, name):
    seconds, same = tell(labs(2), tmp_path, monkeypatch, name)
    assert in_time(seconds, LIMIT) and same


@pytest.mark.parametrize("name", in_tiers(QUIET, 2, 5))
def test_a_quiet_program_is_not_told(labs, tmp_path, monkeypatch, name):
    monkeypatch.setattr(diagnosis, "BELOW", SOONER)
    quiet, begun = SOONER + 2.5, time.monotonic()
    assert not run(labs(2), QUIET[name], tmp_path, quiet).notes
    assert time.monotonic() - begun > quiet - 0.1
