"""Gossip averaging: no server, and nobody waits. Built in lesson 10.

Push-sum: D. Kempe, A. Dobra and J. Gehrke, "Gossip-based computation of aggregate information", FOCS 2003;
to train networks: M. Blot et al., "Gossip training for deep learning", arXiv 1611.09726.
"""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist


def mix(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    """Average two vectors [P + 1], weights with their share behind them, into the first.

    Weights count by their shares, and the shares add up. Built in lesson 10.

    >>> mine, theirs = torch.tensor([2.0, 0.5]), torch.tensor([8.0, 0.25])
    >>> mix(mine, theirs)
    >>> mine
    tensor([4.0000, 0.7500])
    """
    share = mine[-1] + theirs[-1]
    mine[:-1] = (mine[-1] * mine[:-1] + theirs[-1] * theirs[:-1]) / share
    mine[-1] = share


def gossip(mine: torch.Tensor, shifts: Sequence[int], update: Callable[[torch.Tensor], object]) -> bool:
    """Train without a server: update(weights), give half of the share away, mix in what has come; repeat.

    `mine` is [P + 1], float64: the weights, and behind them this rank's share, 1 at the start; changed in
    place. There is a step for each of `shifts`, in which rank r gives to rank r + shift: numbers from 1 to
    R - 1, the same on every rank. Every rank calls, and none waits before its last step; then it waits for
    what is still on its way, and for the others. The shares add up to R always, and messages leave the sum
    over ranks of share times weights as it is. Up to 1,000 steps: a share may be halved in each. Returns True
    when all is delivered. Built in lesson 10.
    """
    rank, world_size, taken, sending = dist.get_rank(), dist.get_world_size(), 0, []
    arriving = dist.irecv(message := torch.empty_like(mine))
    for step, shift in enumerate(shifts, 1):
        update(mine[:-1])
        mine[-1] /= 2
        sending.append(dist.isend(mine.clone(), (rank + shift) % world_size))
        while taken < len(shifts) and (step == len(shifts) or arriving.is_completed()):
            arriving.wait()
            mix(mine, message)
            taken += 1
            arriving = dist.irecv(message) if taken < len(shifts) else None
    dist.barrier()  # or a message of the next call could be taken for one of this
    return all(work.wait() for work in sending)
