"""Attention over a sequence that is split over ranks: keys and values go round a ring. Lesson 20.

H. Liu, M. Zaharia and P. Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context",
arXiv 2310.01889; the merge is the online softmax of M. Milakov and N. Gimelshein, arXiv 1805.02867.
"""

import torch
import torch.distributed as dist


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention to these keys alone: (output, logarithm of the sum of weights). Built in lesson 20.

    q, k, v: [..., tokens, size of a head]. `mask` is added to the scores: -inf hides a key from a query.
    """
    scores = q @ k.mT / q.shape[-1] ** 0.5 + mask
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def merge(
    out: torch.Tensor, log: torch.Tensor, other_out: torch.Tensor, other_log: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What two disjoint sets of keys give together, from what `attend` gave for each. Built in lesson 20."""
    both = torch.logaddexp(log, other_log)
    share, other_share = (log - both).exp(), (other_log - both).exp()
    return share[..., None] * out + other_share[..., None] * other_out, both


def ring_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """This rank's queries' attention to the keys of all ranks, in R steps round a ring. Built in lesson 20.

    Each rank has its part of the sequence, all of one shape. It sends R - 1 blocks of k and v to the right,
    each while it attends to the one before. Forward only.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    out, log = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)  # of no keys
    for step in range(world_size):
        if step < world_size - 1:
            coming = torch.empty_like(block)
            works = dist.isend(block, right), dist.irecv(coming, left)
        out, log = merge(out, log, *attend(q, *block))  # while the next block is on its way
        if step < world_size - 1:
            for work in works:
                work.wait()
            block = coming
    return out
