"""Synchronous SGD that does not wait for the last ones. Built in lesson 11.

J. Chen, X. Pan, R. Monga, S. Bengio and R. Jozefowicz, "Revisiting distributed synchronous SGD", arXiv
1604.00981.
"""

import torch
import torch.distributed as dist

from labkit.algorithms.asynchronous_sgd import Step, send_weights
from labkit.algorithms.parameter_server import finish, receive


def serve_first(weights: torch.Tensor, updates: int, needed: int, step: Step) -> None:
    """Server: make so many updates of the weights [P], each by the mean of the first `needed` gradients.

    Every other rank calls `work` of lesson 10; if they are W, then W - needed of them are backup workers. A
    gradient that comes after its update is dropped, and its worker gets the newest weights: what is used is
    never stale. With needed = W this is synchronous SGD. Built in lesson 11.
    """
    workers, fresh = range(1, dist.get_world_size()), {}
    for _ in range(updates):
        send_weights(fresh or workers, weights)
        current, fresh = set(fresh or workers), {}  # who has the newest weights
        while len(fresh) < needed:
            worker, verb, gradient = receive(weights)
            if worker in current:
                fresh[worker] = gradient
            else:
                send_weights([worker], weights)
                current.add(worker)
        step(weights, sum(fresh.values()) / needed, 0)
    finish([*fresh, *(receive(weights)[0] for _ in workers[needed:])])
