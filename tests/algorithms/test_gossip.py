"""Gossip keeps the sum of share times weights, brings all ranks together, and leaves no message behind."""

import pytest
import torch

STEPS, UNLIKE = 60, "time.sleep(0.001 * (3 if rank == 1 else 1))"
GOSSIP = """
import random, time
from labkit.algorithms import gossip, mix
dealer = random.Random(0)
shifts = [dealer.randrange(1, world_size) for _ in range(STEPS)]
first = torch.full((3,), float(rank), dtype=torch.float64)
mine = torch.cat([first, torch.ones(1, dtype=torch.float64)])
delivered = gossip(mine, shifts, lambda weights: UNLIKE)
""".replace("STEPS", str(STEPS)).replace("UNLIKE", UNLIKE)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_nothing_is_lost_and_all_agree(labs, ask, ranks):
    lab = labs(ranks)
    with lab.trace() as trace:
        found = torch.tensor(ask(lab[:], "mine.tolist()", GOSSIP), dtype=torch.float64)
    assert lab[:]["delivered"] == [True] * ranks
    weights, shares = found[:, :-1], found[:, -1]
    mean = (ranks - 1) / 2
    assert shares.sum().item() == pytest.approx(ranks)
    assert torch.allclose((shares[:, None] * weights).sum(0), torch.full((3,), ranks * mean).double())
    assert (weights - mean).abs().max() < ranks / 2, "an average lies between those that it is of"
    assert len(trace.messages) == STEPS * ranks


def test_weights_come_together(labs, ask):
    """With ranks that meet in each of 60 steps; alone, a rank would keep its distance of up to 1.5."""
    found = ask(labs(4)[:], "mine[-2:].tolist()", GOSSIP.replace(UNLIKE, "dist.barrier()"))
    heavy = [weight for weight, share in found if share > 0.1]  # who gave all away has an old opinion
    assert heavy and max(heavy) - min(heavy) < 0.5


TWICE = """
import time
from labkit.algorithms import gossip
mine = torch.cat([torch.zeros(NUMBERS), torch.ones(1)]).double()
delivered = gossip(mine, [max(1, world_size // 2)], lambda weights: time.sleep(0.3 * (rank % 2)))
first = mine[:-1].abs().max().item()
delivered &= gossip(mine, [1], lambda weights: weights.add_(1))
"""


@pytest.mark.parametrize("numbers", [3, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_call_takes_no_message_of_the_next(labs, ask, ranks, numbers):
    """Even ranks are done while odd ones compute, and go on to the next call."""
    found = ask(labs(ranks)[:], "[delivered, first]", TWICE.replace("NUMBERS", str(numbers)))
    assert found == [[True, 0.0]] * ranks


def test_shares_weigh():
    from labkit.algorithms import mix

    mine = torch.tensor([2.0, 0.5])
    mix(mine, torch.tensor([8.0, 0.25]))
    assert mine.tolist() == [4.0, 0.75]
