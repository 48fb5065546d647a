"""Weights on servers: in step they are all-reduce SGD; on arrival each update knows how stale it is."""

import pytest
import torch

from labkit.algorithms.parameter_server import server_step
from labkit.lab.lab import Lab
from labkit.launch import plan
from labkit.schedule import check, sent_bytes
from labkit.simulate import ETHERNET_10G, simulate
from labkit.simulate.cost import parameter_server_cost

pytestmark = pytest.mark.timeout(200)

SETUP = """
import time
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from labkit.algorithms import shard
from labkit.algorithms.parameter_server import (
    finish, hold, pull, push, serve_asynchronous, serve_synchronous
)
from labkit.algorithms.data import digits

def start(servers):
    global ranks_of_servers, workers, place
    ranks_of_servers, workers = list(range(servers)), list(range(servers, world_size))
    place = workers.index(rank) if rank in workers else None

def updates(optimizer, serve):
    made = []
    optimizer.register_step_post_hook(lambda *_: made.append(1))
    serve()
    return len(made)
"""

DENSE = (
    SETUP
    + """
def network():
    torch.manual_seed(7)
    layers = torch.nn.Linear(64, 5), torch.nn.Tanh(), torch.nn.Linear(5, 10)
    return torch.nn.Sequential(*layers).double()

def gradient(model, weights, x, y):
    vector_to_parameters(weights, model.parameters())
    model.zero_grad()
    cross_entropy(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])

def train_with_servers(servers, steps, momentum=0.0):
    start(servers)
    model = network()
    weights = parameters_to_vector(model.parameters()).detach()
    if place is None:
        own = hold(weights, ranks_of_servers)
        sgd = torch.optim.SGD([own], 0.5, momentum)
        return updates(sgd, lambda: serve_synchronous(own, sgd, workers))
    x, y = (shard(part, place, len(workers)) for part in digits(torch.float64)[:2])
    for step in range(steps):
        pull(weights, ranks_of_servers)
        batch = slice(25 * step, 25 * step + 25)
        push(gradient(model, weights, x[batch], y[batch]), ranks_of_servers)
    pull(weights, ranks_of_servers)
    finish(ranks_of_servers)
    return weights

def train_with_all_reduce(servers, steps, momentum=0.0):
    start(servers)
    group = dist.new_group(workers)
    if place is None:
        return
    model = network()
    weights = torch.nn.Parameter(parameters_to_vector(model.parameters()).detach())
    sgd = torch.optim.SGD([weights], 0.5, momentum)
    x, y = (shard(part, place, len(workers)) for part in digits(torch.float64)[:2])
    for step in range(steps):
        batch = slice(25 * step, 25 * step + 25)
        weights.grad = gradient(model, weights.detach(), x[batch], y[batch])
        dist.all_reduce(weights.grad, group=group)
        weights.grad /= len(workers)
        sgd.step()
    return weights.detach()

def apart(servers, steps, momentum=0.0):
    found = train_with_servers(servers, steps, momentum)
    expected = train_with_all_reduce(servers, steps, momentum)
    return found if place is None else (found - expected).abs().max().item()
"""
)
WORLDS = [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)]
"""(ranks, servers)"""


@pytest.mark.parametrize(("ranks", "servers"), WORLDS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_synchronous_is_all_reduce_sgd(labs, ask, ranks, servers, momentum):
    found = ask(labs(ranks)[:], f"apart({servers}, 12, {momentum})", DENSE)
    assert found[:servers] == [12] * servers  # updates
    assert max(found[servers:]) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 2, 4])
def test_synchronous_on_8_ranks(labs, ask, servers):
    found = ask(labs(8)[:], f"apart({servers}, 12)", DENSE)
    assert max(found[servers:]) < 1e-12


@pytest.mark.slow
@pytest.mark.ranks
def test_through_gloo(ask):
    lab = Lab(plan(3, backend="gloo"))
    try:
        assert max(ask(lab[:], "apart(1, 6)", DENSE)[1:]) < 1e-12
        assert max(ask(lab[:], "apart(2, 6)", DENSE)[2:]) < 1e-12
        assert max(ask(lab[:], "rows_apart(1)", SPARSE)[1:]) < 1e-12
    finally:
        lab.stop()


def test_two_pushes_in_one_step_are_refused(labs, ask):
    statements = (
        SETUP
        + """
start(1)
weights, told = torch.zeros(5), None
own = hold(weights, ranks_of_servers) if rank == 0 else None
try:
    if rank == 0:
        serve_synchronous(own, torch.optim.SGD([own], 1.0), workers)
    if rank == 1:
        push(weights, ranks_of_servers)
        push(weights, ranks_of_servers)
except AssertionError as error:
    told = str(error)
"""
    )
    told = ask(labs(3)[:], "told", statements)
    assert told[1:] == [None, None]
    assert told[0] == "pull before each push"


def test_who_finishes_early_does_not_stop_the_others(labs, ask):
    """Worker r takes r steps; a step that some have left is the mean over the others."""
    statements = (
        SETUP
        + """
start(1)
weights = torch.zeros(5, dtype=torch.float64)
if rank == 0:
    own = hold(weights, ranks_of_servers)
    sgd = torch.optim.SGD([own], 1.0)
    done = updates(sgd, lambda: serve_synchronous(own, sgd, workers))
else:
    for step in range(rank):
        pull(weights, ranks_of_servers)
        push(torch.full_like(weights, rank), ranks_of_servers)
    finish(ranks_of_servers)
"""
    )
    lab = labs(4)
    lab[:].execute(statements, block=True)
    assert lab[0]["done"] == 3
    expected = -((1 + 2 + 3) / 3 + (2 + 3) / 2 + 3)
    lab[0].execute("weights = own.tolist()", block=True)
    assert lab[0]["weights"] == pytest.approx([expected] * 5, abs=1e-12)


SPARSE = (
    SETUP
    + """
N, D, STEPS = 101, 3, 5

def batches(worker):
    random = torch.Generator().manual_seed(worker)
    ids = torch.randint(N, (STEPS, 8), generator=random)
    ids[2] = 4  # one row, again and again: with two servers or more, one of them has nothing to do
    return ids

def loss(rows):
    return (rows.prod(1) - 1).square().sum()

def first():
    return torch.randn(N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

def rows_apart(servers):
    start(servers)
    if place is None:
        own = hold(first(), ranks_of_servers)
        sgd = torch.optim.SGD([own], 0.1)
        return updates(sgd, lambda: serve_synchronous(own, sgd, workers))
    for ids in batches(place):
        touched, where = ids.unique(return_inverse=True)
        rows = torch.empty(len(touched), D, dtype=torch.float64)
        pull(rows, ranks_of_servers, touched)
        rows.requires_grad_()
        loss(rows[where]).backward()
        push(rows.grad, ranks_of_servers, touched)
    found = torch.empty(N, D, dtype=torch.float64)
    pull(found, ranks_of_servers)
    finish(ranks_of_servers)
    table = torch.nn.Parameter(first())
    sgd = torch.optim.SGD([table], 0.1)
    for step in range(STEPS):
        sgd.zero_grad()
        (sum(loss(table[batches(w)[step]]) for w in range(len(workers))) / len(workers)).backward()
        sgd.step()
    return (found - table.detach()).abs().max().item()
"""
)


@pytest.mark.parametrize(("ranks", "servers"), WORLDS)
def test_rows_alone_give_the_weights_of_the_whole_table(labs, ask, ranks, servers):
    found = ask(labs(ranks)[:], f"rows_apart({servers})", SPARSE)
    assert found[:servers] == [5] * servers
    assert max(found[servers:]) < 1e-12


ASYNCHRONOUS = (
    SETUP
    + """
def count(servers, steps, pause=0.0, scale=lambda staleness: 1.0):
    start(servers)
    weights, seen = torch.zeros(7, dtype=torch.float64), []
    if place is None:
        own, after = hold(weights, ranks_of_servers), []
        sgd = torch.optim.SGD([own], 1.0)
        sgd.register_step_post_hook(lambda *_: after.append(own[0].item()))
        return serve_asynchronous(own, sgd, workers, scale), after
    for _ in range(steps):
        pull(weights, ranks_of_servers)
        seen.append(weights.tolist())
        time.sleep(pause)
        push(-torch.ones_like(weights), ranks_of_servers)
    finish(ranks_of_servers)
    return seen
"""
)


@pytest.mark.parametrize(("ranks", "servers"), WORLDS)
def test_asynchronous_applies_every_gradient_on_arrival(labs, ask, ranks, servers):
    """Each gradient adds 1, so the weights that a worker pulled are the version that it had."""
    steps = 20
    found = ask(labs(ranks)[:], f"count({servers}, {steps})", ASYNCHRONOUS)
    workers = range(servers, ranks)
    for place, (updates, after) in enumerate(found[:servers]):
        assert sorted(worker for worker, _ in updates) == sorted([*workers] * steps)
        assert after == [*range(1, len(updates) + 1)]
        pulled = {w: iter([weights[place] for weights in found[w]]) for w in workers}
        for version, (worker, staleness) in enumerate(updates):
            assert staleness == version - next(pulled[worker])


def test_one_worker_is_never_stale(labs, ask):
    updates, _ = ask(labs(2)[:], "count(1, 10)", ASYNCHRONOUS)[0]
    assert updates == [(1, 0)] * 10


def test_scale_is_of_the_staleness(labs, ask):
    scale = "scale=lambda staleness: 1 / (1 + staleness)"
    updates, after = ask(labs(4)[:], f"count(1, 20, 0.01, {scale})", f"{ASYNCHRONOUS}\ndist.barrier()")[0]
    assert any(staleness for _, staleness in updates)
    expected = torch.tensor([1 / (1 + s) for _, s in updates], dtype=torch.float64).cumsum(0)
    assert after == pytest.approx(expected.tolist(), abs=1e-12)


@pytest.mark.parametrize("servers", [1, 2, 3, 8])
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 64])
def test_a_simulated_step_takes_what_the_servers_links_need(servers, workers):
    step, size = server_step(servers, workers, 0.2), 24 * 10**6
    check(step)
    assert sent_bytes(step, size) == (workers * size // servers,) * servers + (size,) * workers
    found = max(event.end for event in simulate(step, ETHERNET_10G, size).events)
    cost = parameter_server_cost(workers, servers)
    assert found == pytest.approx(0.2 + cost.seconds(size, ETHERNET_10G.alpha, ETHERNET_10G.beta), rel=1e-3)


def test_the_schedule_runs(labs, ask):
    """Two servers: each ends with the sum of the workers' tensors in its own chunk."""
    statements = """
from labkit.algorithms.parameter_server import server_step
from labkit.schedule import run
x = torch.arange(10.0) * (rank + 1)
memory = run(server_step(2, 2, 0.0), x)
found = memory["gradient"].tolist() if rank < 2 else x.tolist()
"""
    found = ask(labs(4)[:], "found", statements)
    pulled = [*range(5), *(2 * n for n in range(5, 10))]
    assert found[2:] == [pulled] * 2, "server 0 holds 0 to 4, server 1 twice 5 to 9"
    assert found[:2] == [[2 * n for n in pulled[:5]], [2 * n for n in pulled[5:]]]
