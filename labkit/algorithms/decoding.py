"""A model that writes token by token, its attention heads split over ranks, with a KV cache. Lesson 23.

R. Pope et al., "Efficiently Scaling Transformer Inference", arXiv 2211.05102.
"""

import torch
import torch.distributed as dist


def decode_step(
    x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, W: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention of the newest token to itself and all before it: its output, and the cache with it added.

    x: [width], the same on every rank; `keys` and `values`: [tokens before, head], this rank's cache; W:
    [4, width, head], for query, key, value and, transposed, output of this rank's head. One all-reduce.
    Built in lesson 23.
    """
    q, k, v = x @ W[:3]
    keys, values = torch.cat([keys, k[None]]), torch.cat([values, v[None]])
    weights = (keys @ q / len(q) ** 0.5).softmax(0)
    out = weights @ values @ W[3].T
    dist.all_reduce(out)
    return out, keys, values
