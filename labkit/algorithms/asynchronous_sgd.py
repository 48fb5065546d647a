"""Asynchronous SGD: rank 0 keeps the weights and updates them on arrival, the others compute. Lesson 10.

A message is one vector: the weights or a gradient, and behind it the version of the weights, which is the
number of updates before. It goes out with the weights and comes back with the gradient. Version -1: no more.
"""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist

Step = Callable[[torch.Tensor, torch.Tensor, int], object]
"""step(weights, gradient, staleness) changes the weights [P] in place."""


def send_weights(workers: Iterable[int], weights: torch.Tensor, version: int) -> None:
    """Server: send these ranks the weights [P] and their version. Built in lesson 10."""
    message = torch.cat([weights, weights.new_tensor([version])])
    for worker in workers:
        dist.send(message, worker)


def receive_gradient(weights: torch.Tensor) -> tuple[int, torch.Tensor, int]:
    """Server: the next gradient that comes: its worker, the gradient [P], the version that it is for.

    It has as many numbers as the weights, and their dtype. Built in lesson 10.
    """
    message = weights.new_empty(len(weights) + 1)
    worker = dist.recv(message)
    return worker, message[:-1], int(message[-1])


def work(gradient: Callable[[torch.Tensor], torch.Tensor], size: int) -> int:
    """Worker: compute gradient(weights) until the server wants no more; returns how many it computed.

    `size` is P, the number of weights, which are float32. Built in lesson 10.
    """
    message, computed = torch.empty(size + 1), 0
    dist.recv(message, 0)
    while message[-1] >= 0:
        message[:-1] = gradient(message[:-1])
        dist.send(message, 0)
        dist.recv(message, 0)
        computed += 1
    return computed


def serve(weights: torch.Tensor, updates: int, step: Step) -> list[tuple[int, int]]:
    """Server: make so many updates of the weights [P], in place, each when its gradient arrives.

    Every other rank calls `work`. A gradient's staleness is the number of updates between the weights that
    it is for and its own. Returns (worker, staleness) of each update, in their order. Every worker has one
    gradient under way until the last W updates take the last of each, so the staleness of N >= W updates is
    (W - 1)(N - W / 2) in all, whatever the workers' speeds. Built in lesson 10.
    """
    workers, history = dist.get_world_size() - 1, []
    send_weights(range(1, workers + 1), weights, 0)
    for version in range(updates):
        worker, gradient, pulled = receive_gradient(weights)
        staleness = version - pulled
        step(weights, gradient, staleness)
        history.append((worker, staleness))
        more = version < updates - workers
        send_weights([worker], weights, version + 1 if more else -1)
    return history


def serve_in_step(weights: torch.Tensor, updates: int, step: Step) -> None:
    """Server: the same synchronously: each update by the mean of one gradient of every worker.

    Every other rank calls `work`. No gradient is stale. Built in lesson 10.
    """
    workers = range(1, dist.get_world_size())
    for version in range(updates):
        send_weights(workers, weights, version)
        total = sum(receive_gradient(weights)[1] for _ in workers)
        step(weights, total / len(workers), 0)
    send_weights(workers, weights, -1)
