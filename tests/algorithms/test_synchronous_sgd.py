"""Replicas stay equal to the last bit, and are one process with batch R*B, at 1 to 4 ranks."""

import pytest
import torch

pytestmark = pytest.mark.timeout(300)

SETUP = """
import copy
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from labkit.algorithms import in_step, shard, sync_gradients, sync_initial_weights, train_epoch
from labkit.algorithms.data import digits

def network():
    hidden = torch.nn.Linear(64, 32), torch.nn.ReLU()
    return torch.nn.Sequential(*hidden, torch.nn.Linear(32, 10))

def nothing(model):
    pass

def train(model, x, y, epochs, sync, momentum=0):
    sgd = torch.optim.SGD(model.parameters(), 0.5, momentum)
    losses, equal = [], []
    for epoch in range(epochs):
        losses += train_epoch(model, sgd, x, y, 25, epoch, sync)
        equal.append(in_step(model))
    return losses, equal

def one_process(model, epochs):
    sgd, losses = torch.optim.SGD(model.parameters(), 0.5), []
    rows = torch.arange(len(x)).view(-1, world_size)
    for epoch in range(epochs):
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(25):
            union = rows[batch].flatten()
            sgd.zero_grad()
            loss = cross_entropy(model(x[union]), y[union])
            loss.backward()
            sgd.step()
            losses.append(loss.item())
    return losses

x, y, x_test, y_test = digits()
x_r, y_r = shard(x, rank, world_size), shard(y, rank, world_size)
replica = network()
"""


def test_initial_weights_and_buffers_become_rank_0s(lab, ask):
    statements = (
        SETUP + "replica.append(torch.nn.BatchNorm1d(10)); replica[-1].running_mean += rank\n"
        "before = in_step(replica); first = parameters_to_vector(replica.parameters()).tolist()\n"
        "sync_initial_weights(replica)"
    )
    assert ask(lab[:], "in_step(replica)", statements) == [True] * len(lab)
    assert lab[:]["before"] == [True] + [False] * (len(lab) - 1), "rank r starts from seed r"
    assert ask(lab[0], "parameters_to_vector(replica.parameters()).tolist() == first")
    assert ask(lab[:], "replica[-1].running_mean.abs().max().item()") == [0.0] * len(lab)


def test_gradients_become_their_mean(lab, ask):
    statements = SETUP + "for p in replica.parameters(): p.grad = torch.full_like(p, rank)\n"
    means = ask(
        lab[:], "{p.grad.mean().item() for p in replica.parameters()}", statements + "sync_gradients(replica)"
    )
    assert means == [{(len(lab) - 1) / 2}] * len(lab)


def test_a_single_bit_is_out_of_step(labs, ask):
    statements = (
        SETUP + "sync_initial_weights(replica)\nif rank == 1: replica[0].bias.data.view(torch.int32)[3] ^= 1"
    )
    assert ask(labs(3)[:], "in_step(replica)", statements) == [True, False, True]


def test_thirty_epochs_are_those_of_one_process(lab, ask):
    """The numbers of lesson 04: in step, 1e-5 in the loss, 95 % of unseen digits."""
    statements = (
        SETUP + "sync_initial_weights(replica); start = copy.deepcopy(replica)\n"
        "losses, equal = train(replica, x_r, y_r, 30, sync_gradients)\n"
        "one = one_process(start, 30) if rank == 0 else None"
    )
    accuracy = ask(lab[:], "(replica(x_test).argmax(1) == y_test).float().mean().item()", statements)
    assert lab[:]["equal"] == [[True] * 30] * len(lab)
    ranks = torch.tensor(lab[:]["losses"], dtype=torch.float64).mean(0)
    one = torch.tensor(lab[0]["one"], dtype=torch.float64)
    assert len(one) == len(ranks) == 30 * 1500 // (25 * len(lab))
    assert (one - ranks).abs().max() < 1e-5
    assert min(accuracy) >= 0.95


def test_distributed_data_parallel_is_the_same(lab, ask):
    statements = (
        SETUP + "wrapped = DistributedDataParallel(copy.deepcopy(replica).double())\n"
        "replica = replica.double(); sync_initial_weights(replica); x_r = x_r.double()\n"
        "train(replica, x_r, y_r, 10, sync_gradients); train(wrapped, x_r, y_r, 10, nothing)\n"
        "a, b = (parameters_to_vector(m.parameters()) for m in (replica, wrapped))"
    )
    assert max(ask(lab[:], "(a - b).abs().max().item()", statements)) < 1e-12


def test_replicas_that_start_apart_stay_apart(labs, ask):
    statements = (
        SETUP + "before = parameters_to_vector(replica.parameters()).detach()\n"
        "train(replica, x_r, y_r, 5, sync_gradients)\n"
        "both = torch.stack([before, parameters_to_vector(replica.parameters()).detach()])\n"
        "first = both.clone(); dist.broadcast(first, src=0)"
    )
    distances = ask(labs(2)[:], "(both - first).norm(dim=1).tolist()", statements)
    assert distances[0] == [0, 0]
    before, after = distances[1]
    assert before > 1 and after == pytest.approx(before, abs=1e-4)


def test_momentum_keeps_replicas_in_step(labs, ask):
    statements = SETUP + (
        "sync_initial_weights(replica)\n_, equal = train(replica, x_r, y_r, 5, sync_gradients, momentum=0.9)"
    )
    assert ask(labs(4)[:], "equal", statements) == [[True] * 5] * 4
