"""Asynchronous SGD: rank 0 keeps the weights and updates them on arrival, the others compute. Lesson 10.

The messages are those of lesson 08. The server answers a push with a push, of the new weights, or with
FINISH: so nobody pulls, and every worker has one gradient to compute at a time.
"""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist

from labkit.algorithms.parameter_server import FINISH, finish, push, receive

Step = Callable[[torch.Tensor, torch.Tensor, int], object]
"""step(weights, gradient, staleness) changes the weights [P] in place."""


def send_weights(workers: Iterable[int], weights: torch.Tensor) -> None:
    """Server: send these ranks the weights [P]. Built in lesson 10."""
    for worker in workers:
        push(weights, [worker])


def work(gradient: Callable[[torch.Tensor], torch.Tensor], size: int) -> int:
    """Worker: compute gradient(weights) until the server wants no more; returns how many it computed.

    `size` is P, the number of weights, which are float32. Built in lesson 10.
    """
    like, computed = torch.empty(size), 0
    server, verb, weights = receive(like)
    while verb != FINISH:
        push(gradient(weights), [server])
        computed += 1
        server, verb, weights = receive(like)
    return computed


def serve(weights: torch.Tensor, updates: int, step: Step) -> list[tuple[int, int]]:
    """Server: make so many updates of the weights [P], in place, each when its gradient arrives.

    Every other rank calls `work`. A gradient's staleness is the number of updates between the weights that
    it is for and its own. Returns (worker, staleness) of each update, in their order. Every worker has one
    gradient under way until the last W updates take the last of each, so the staleness of N >= W updates is
    (W - 1)(N - W / 2) in all, whatever the workers' speeds. Built in lesson 10.
    """
    workers, history = range(1, dist.get_world_size()), []
    send_weights(workers, weights)
    has = dict.fromkeys(workers, 0)  # of each worker: the version of its weights
    for version in range(updates):
        worker, verb, gradient = receive(weights)
        staleness = version - has[worker]
        step(weights, gradient, staleness)
        history.append((worker, staleness))
        if version < updates - len(workers):
            send_weights([worker], weights)
            has[worker] = version + 1
        else:
            finish([worker])
    return history


def serve_in_step(weights: torch.Tensor, updates: int, step: Step) -> None:
    """Server: the same synchronously: each update by the mean of one gradient of every worker.

    Every other rank calls `work`. No gradient is stale. Built in lesson 10.
    """
    workers = range(1, dist.get_world_size())
    for _ in range(updates):
        send_weights(workers, weights)
        total = sum(receive(weights)[2] for _ in workers)
        step(weights, total / len(workers), 0)
    finish(workers)
