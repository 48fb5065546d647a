"""Random histories: whatever befalls a lab, the next right cell is right, and nothing is left in the end.

LABKIT_TEST_SEED repeats a run, as far as moments can be repeated; LABKIT_FUZZ_SECONDS makes it last as long.
"""

import os
import sys
import time

import pytest

from tests.seed import SEED

from . import fuzz
from .histories import EXIT, KILL, STOP, VICTIMS, History, Step, Strike, history
from .small import with_shared_memory


@pytest.mark.timeout(5400)
@pytest.mark.parametrize(
    "seconds", [pytest.param(90, marks=pytest.mark.slow), pytest.param(3600, marks=pytest.mark.nightly)]
)
def test_the_next_right_cell_is_right(seconds):
    seconds = float(os.environ.get("LABKIT_FUZZ_SECONDS", seconds))
    command = [sys.executable, "-m", "tests.faults.fuzz", str(seconds), str(SEED)]
    longest = seconds + fuzz.LONGEST + 2 * fuzz.SHRINKING
    done = with_shared_memory("2g", *command, seconds=longest)  # where nobody else's files come and go
    print(done.stdout)
    assert done.returncode == 0, done.stderr


ROUGH = History(2, "mpi", True, False, (Step("%%px\n1", (Strike(0.5),)), Step("lab.network()")) * 4)


def test_a_history_that_fails_is_made_small():
    culprit = Step("lab.compare('x')", (Strike(0.1, "rank", "SIGKILL"), Strike(0.2)))
    told = History(3, "gloo", True, False, (*ROUGH.steps, culprit, *ROUGH.steps))

    def fails(candidate):
        return any("compare" in s.source and s.strikes[:1] == culprit.strikes[:1] for s in candidate.steps)

    found = fuzz.minimal(told, fails, until=time.monotonic() + 10)
    assert found.steps == (Step(culprit.source, culprit.strikes[:1]),)


def test_a_script_says_it_all():
    told, names = history("7"), {}
    exec(fuzz.script(told).replace("\nplay(", "\nplayed = ("), names)
    assert repr(names["played"]) == repr(told)


def test_a_seed_is_a_history_and_all_kinds_of_things_happen():
    told = [history(f"1/{n}") for n in range(300)]
    assert told == [history(f"1/{n}") for n in range(300)]
    assert {h.end for h in told} == {STOP, EXIT, KILL} and {h.backend for h in told} == {"mpi", "gloo"}
    struck = {strike.victim for h in told for step in h.steps for strike in step.strikes}
    assert struck == {*VICTIMS, "interrupt"}


@pytest.mark.slow
def test_what_no_user_should_see_is_found():
    assert "ZeroDivisionError reached the user" in fuzz.fault(
        History(1, "mpi", True, False, (Step("1 / 0"),))
    )
