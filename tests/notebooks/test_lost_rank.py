"""Lesson 22's program survives: whenever a rank is killed, training goes on from the last complete save."""

import random

import nbformat
import pytest

from labkit import LabError, launch
from labkit.exercises.catalogue import exercise_named
from labkit.lab.lab import Lab
from labkit.lab.px import PxMagics
from tests.lessons import lesson

DRAWS = 20
KILL = """
import os, signal

begun = dcp.FileSystemWriter.write_data
def dies(*arguments):
    if {in_save} and rank == {victim} and training[2]["step"] >= {step}:
        os.kill(os.getpid(), signal.SIGKILL)
    return begun(*arguments)
dcp.FileSystemWriter.write_data = dies

training = begin()
train(training, {step})
if rank == {victim} and not {in_save}:
    os.kill(os.getpid(), signal.SIGKILL)
train(training, STEPS)
"""


def program() -> str:
    """The cells from the imports to the training loop, and the heart between them."""
    cells = [cell.source for cell in nbformat.read(lesson("22"), as_version=4).cells]
    first = next(n for n, source in enumerate(cells) if source.startswith("%%px"))
    last = next(n for n, source in enumerate(cells) if "def train(" in source)
    written = [source for source in cells[first : last + 1] if source.startswith("%%px")]
    heart = exercise_named("my_rest_of_epoch").solution + "\nrest_of_epoch = my_rest_of_epoch"
    return "\n".join([*(source.removeprefix("%%px") for source in written), heart])


@pytest.fixture(scope="module")
def lab():
    """A lab of this test's own, since it is killed, with 4 ranks at first."""
    lab = Lab(launch.plan(4))
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def curve(lab):
    """The losses of a training that four ranks made without interruption."""
    whole = "training = begin()\ntrain(training, STEPS, every=0)\nlosses = training[2]['losses']"
    lab[:].execute(f"{program()}\n{whole}", block=True)
    return lab[0]["losses"]


EACH_DRAW = [
    pytest.param(number, marks=pytest.mark.slow if number < 2 else pytest.mark.nightly)
    for number in range(DRAWS)
]


@pytest.mark.ranks
@pytest.mark.parametrize("number", EACH_DRAW)
def test_training_goes_on_whenever_a_rank_is_killed(lab, curve, shell, number, tmp_path):
    chance = random.Random(number)
    before, now = len(lab), chance.choice([3, 4])
    step, victim, in_save = chance.randrange(1, 50), chance.randrange(before), chance.random() < 0.5
    told = f"{before} ranks, rank {victim} killed after step {step} (in a save: {in_save}), {now} go on"
    lab[:].push({"folder": str(tmp_path)}, block=True)
    lab[:].execute(program(), block=True)
    with pytest.raises(LabError, match=f"rank {victim} .*died: .*[Kk]illed"):
        PxMagics(shell, lab).cell_px("", KILL.format(step=step, victim=victim, in_save=in_save))
    whole = max([int(f.parent.name) for f in tmp_path.glob("*/.metadata")], default=0)
    assert whole == (step - 1 if in_save else step) // 10 * 10, told
    lab.restart(ranks=now)
    lab[:].push({"folder": str(tmp_path)}, block=True)
    lab[:].execute(f"{program()}\npast = resumed()", block=True)
    past = lab[0]["past"]
    assert (past["seen"] == 2).all(), told
    assert (past["losses"] / curve - 1).abs().max() < 1e-9, told
    assert before < 4 or now < 4 or past["losses"].equal(curve), told
