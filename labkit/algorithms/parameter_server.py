"""Weights on servers: workers pull them and push gradients. Built in lessons 08 and 09.

M. Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.

Some ranks are servers, the others workers. The rows of one parameter are dealt to S servers as lesson 03
deals samples: row i lies on server i % S, as row i // S of its shard; a vector has rows of one number. A
worker asks with a header of two int64: PULL, PUSH or FINISH, and of how many rows (ALL: all of the shard).
Then come the numbers of these rows, if not all, and of a push their gradient. A server takes the next header
from whoever sends one. All tensors are on the CPU.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.distributed as dist

from labkit.algorithms.shard import shard
from labkit.schedule import Compute, Recv, Reduce, Schedule, Send

PULL, PUSH, FINISH, ALL = 0, 1, 2, -1


def hold(weights: torch.Tensor, servers: Sequence[int]) -> torch.nn.Parameter:
    """Server: this rank's shard of the weights [N, ...], a parameter to make an optimiser for.

    `servers` are ranks, here and below, in the same order on every rank. Built in lesson 09.
    """
    place = servers.index(dist.get_rank())
    return torch.nn.Parameter(shard(weights.detach(), place, len(servers)).clone())


def pull(rows: torch.Tensor, servers: Sequence[int], ids: torch.Tensor | None = None) -> None:
    """Worker: copy the servers' weights into rows, in place.

    `rows` is [N, ...], all that the servers hold together; or with `ids`, int64 [n], the rows of these
    numbers alone, [n, ...]. Returns when all servers have answered. Built in lesson 09.
    """
    for server, mine, wanted in shares(ids, servers):
        request(PULL, server, wanted)
        part = torch.empty_like(rows[mine])
        dist.recv(part, server)
        rows[mine] = part


def push(gradient: torch.Tensor, servers: Sequence[int], ids: torch.Tensor | None = None) -> None:
    """Worker: send the servers the gradient of what was pulled, [N, ...], or [n, ...] of the rows `ids`.

    Pull before each push: a server takes the gradient as one of the weights that it sent last. A number that
    is twice in `ids` counts twice. Returns when every server has taken its part. Built in lesson 09.
    """
    for server, mine, touched in shares(ids, servers):
        request(PUSH, server, touched)
        dist.send(gradient[mine].contiguous(), server)


def finish(servers: Sequence[int]) -> None:
    """Worker: tell the servers that nothing comes any more; else they wait for ever. Built in lesson 08."""
    for server in servers:
        request(FINISH, server)


def shares(ids: torch.Tensor | None, servers: Sequence[int]) -> Iterator[tuple]:
    """Of each server: its rank, which rows it has, their numbers in its shard. Built in lesson 09.

    Workers go through the servers in turn, and begin with different ones: else all would queue at the first.
    """
    for turn in range(len(servers)):
        place = (dist.get_rank() + turn) % len(servers)
        mine, there = slice(place, None, len(servers)), None
        if ids is not None:
            mine = ids % len(servers) == place
            there = ids[mine] // len(servers)
        yield servers[place], mine, there


def request(verb: int, server: int, ids: torch.Tensor | None = None) -> None:
    """Worker: send a header, and the numbers of rows if there are any. Built in lesson 09."""
    dist.send(torch.tensor([verb, ALL if ids is None else len(ids)]), server)
    if ids is not None:
        dist.send(ids, server)


def receive(weights: torch.Tensor, worker: int | None = None) -> tuple:
    """Server: wait for the next request, of this worker or of any: (worker, verb, rows or gradient).

    What is asked for are numbers of rows or a slice. A gradient is one of the whole shard, sparse where it
    is of some rows. Built in lesson 08.
    """
    header = torch.empty(2, dtype=torch.int64)
    worker = dist.recv(header, worker)  # None: from whoever comes first
    verb, count = header.tolist()
    ids = slice(None) if count == ALL else torch.empty(count, dtype=torch.int64)
    if count != ALL:
        dist.recv(ids, worker)
    if verb != PUSH:
        return worker, verb, ids
    gradient = torch.empty_like(weights[ids])
    dist.recv(gradient, worker)
    return worker, verb, gradient if count == ALL else sparse(ids, gradient, weights)


def sparse(ids: torch.Tensor, rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A sparse tensor of the shape of `like`, with these rows at these numbers. Built in lesson 09."""
    return torch.sparse_coo_tensor(ids[None], rows, like.shape, check_invariants=True)


def answer(weights: torch.nn.Parameter, worker: int, ids: slice | torch.Tensor) -> None:
    """Server: send a worker the rows that it asked for. Built in lesson 08."""
    dist.send(weights.detach()[ids], worker)


def update(
    weights: torch.nn.Parameter, optimizer: torch.optim.Optimizer, gradients: Iterable[torch.Tensor]
) -> None:
    """Server: one step of the optimiser, with the mean of the gradients. Built in lesson 08."""
    first, *others = gradients
    weights.grad = sum(others, first) / (1 + len(others))
    optimizer.step()


def serve_synchronous(
    weights: torch.nn.Parameter, optimizer: torch.optim.Optimizer, workers: Iterable[int]
) -> None:
    """Server: update with the mean of one gradient of each worker, until all have called `finish`.

    Who has pushed and pulls again gets its answer after the update. What one pushed before it finished still
    counts; the others go on without it. Gradients of rows are sparse tensors, so the optimiser must take
    those (SGD without momentum, SparseAdam). Built in lesson 08.
    """
    working, pushed, waiting = set(workers), {}, {}
    while working:
        worker, verb, given = receive(weights)
        assert verb != PUSH or worker not in pushed, "pull before each push"
        if verb == FINISH:
            working.remove(worker)
        else:
            (pushed if verb == PUSH else waiting)[worker] = given
        if pushed and working <= pushed.keys():
            update(weights, optimizer, [pushed[w] for w in sorted(pushed)])
            pushed.clear()
        for worker in [w for w in waiting if w not in pushed]:
            answer(weights, worker, waiting.pop(worker))


def serve_asynchronous(
    weights: torch.nn.Parameter,
    optimizer: torch.optim.Optimizer,
    workers: Iterable[int],
    scale: Callable[[int], float] = lambda staleness: 1,
) -> list[tuple[int, int]]:
    """Server: update with each gradient when it arrives, until all workers have called `finish`.

    Nobody waits for another worker, so a gradient may be one of older weights. Its staleness is how many
    updates the server made between the worker's pull and its push; it is multiplied by scale(staleness).
    Returns (worker, staleness) of each update, in their order; `optimizer.register_step_post_hook` is called
    after each. Built in lesson 08, used in lesson 10.
    """
    working, version, updates = set(workers), {}, []
    while working:
        worker, verb, given = receive(weights)
        if verb == FINISH:
            working.remove(worker)
        elif verb == PULL:
            version[worker] = len(updates)
            answer(weights, worker, given)
        else:
            staleness = len(updates) - version[worker]
            update(weights, optimizer, [given * scale(staleness)])
            updates.append((worker, staleness))
    return updates


def server_step(servers: int, workers: int, seconds: float) -> Schedule:
    """A synchronous step as a schedule: all pull, compute for so many seconds, push. Built in lesson 08.

    Ranks 0 to S - 1 are servers; server s holds chunk s, and adds up what comes in its buffer "gradient".
    """
    ranks, shards = range(servers, servers + workers), range(servers)
    pull, push = ([make(s, s) for s in shards] for make in (Recv, Send))
    work = [[pull, Compute("gradient", seconds), push] for _ in ranks]
    serve = [[[Send(w, s) for w in ranks], [Reduce(w, s, into="gradient") for w in ranks]] for s in shards]
    return Schedule(serve + work, servers)  # type: ignore[arg-type]  # lists of unlike operations
