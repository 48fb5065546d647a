"""Every request is answered, once, in batches that close in time; none is lost with a replica."""

import json

import numpy as np
import pytest

from labkit import LabError
from labkit.algorithms import close_batch
from tests.faults.test_faults import run

SETUP = """
import time
from labkit.algorithms import answer_batches, serve_requests

def model(x):
    time.sleep(0.01)
    return 2 * x

def served(arrivals, most, timeout):
    if rank > 0:
        return answer_batches(model, 3)
    x, found = torch.arange(3.0 * len(arrivals)).view(-1, 3), []
    def answered(batch, answers, seconds):
        rows = [(answers[k] == 2 * x[i]).all().item() for k, i in enumerate(batch)]
        found.append((list(batch), rows, seconds - arrivals[batch[0]]))
    serve_requests(x, arrivals, most, timeout, range(1, world_size), answered)
    return found
"""


def test_a_batch_closes_when_it_is_full_or_its_oldest_is_late():
    assert close_batch([], 9.0, 4, 0.5) == 0
    assert close_batch([1.0, 1.4], 1.4, 4, 0.5) == 0
    assert close_batch([1.0, 1.4], 1.5, 4, 0.5) == 2
    assert close_batch([1.4], 1.9, 4, 0.5) == 1, "even a single request runs"
    assert close_batch([1.0, 1.0, 1.0, 1.0, 1.0], 1.0, 4, 0.5) == 4


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_request_is_answered_once(labs, ask, ranks):
    arrivals = np.random.default_rng(0).exponential(0.005, 60).cumsum().tolist()
    found = ask(labs(ranks)[:], f"served({arrivals}, 8, 0.02)", SETUP)[0]
    assert sorted(i for numbers, _, _ in found for i in numbers) == list(range(60))
    assert all(all(rows) for _, rows, _ in found)
    assert max(len(numbers) for numbers, _, _ in found) <= 8


def test_a_single_request_waits_for_its_time_out_and_no_longer(labs, ask):
    ((numbers, _, seconds),) = ask(labs(2)[:], "served([0.0], 8, 0.1)", SETUP)[0]
    assert numbers == [0] and 0.1 <= seconds < 30, "nobody fills up its batch, however long it waits"


KILLED = """
import json, os, signal
answered = dict(map(json.loads, open(path))) if os.path.exists(path) else {}
left = [i for i in range(40) if i not in answered]
x = torch.arange(120.0).view(-1, 3)

def note(batch, answers, seconds):
    with open(path, "a") as journal:
        for i, row in zip(batch, answers):
            print(json.dumps([left[i], row.tolist()]), file=journal)

def fragile(x):
    while kill and rank == 1:  # in its first batch, once rank 2 has answered one
        if os.path.exists(path) and os.path.getsize(path):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
    return model(x)

times = [0.01 * i for i in range(len(left))]
if rank == 0:
    serve_requests(x[left], times, 4, 0.02, range(1, world_size), note)
else:
    answer_batches(fragile, 3)
"""


@pytest.mark.slow
def test_no_request_is_lost_when_a_replica_is_killed(labs, tmp_path):
    """The lab's ranks end with it, so what is answered is noted on disk; new ranks answer the rest."""
    lab, journal = labs(3), tmp_path / "answers"

    def serve(kill):
        lab[:].push({"path": str(journal), "kill": kill}, block=True)
        run(lab, SETUP + KILLED)

    with pytest.raises(LabError, match=r"rank 1 .* died: .*[Kk]illed"):
        serve(True)
    before = len(journal.read_text().splitlines())
    lab.restart()
    serve(False)
    answers = [json.loads(line) for line in journal.read_text().splitlines()]
    assert 0 < before < 40 and sorted(i for i, _ in answers) == list(range(40)), "each once"
    assert all(row == [2.0 * (3 * i + k) for k in range(3)] for i, row in answers)
