"""A mixture of experts, one expert on each rank: tokens travel to the expert that a router chose. Lesson 20.

W. Fedus, B. Zoph and N. Shazeer, "Switch Transformers: Scaling to Trillion Parameter Models with Simple and
Efficient Sparsity", arXiv 2101.03961, section 2.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist


def send_to_experts(
    x: torch.Tensor, choice: torch.Tensor, expert: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """What each token's expert makes of it; the expert of number r is on rank r. Built in lesson 20.

    x: [tokens, width], this rank's tokens; `choice`: the expert of each; `expert`: this rank's own. Three
    all-to-alls: how many, there, and back. Forward only.
    """
    order = choice.argsort(stable=True)
    sent = choice.bincount(minlength=dist.get_world_size())
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    there, back = received.tolist(), sent.tolist()
    mine = x.new_empty(sum(there), x.shape[1])
    dist.all_to_all_single(mine, x[order], there, back)
    answers = torch.empty_like(x)
    dist.all_to_all_single(answers, expert(mine), back, there)
    out = torch.empty_like(x)
    out[order] = answers
    return out


def within_capacity(choice: torch.Tensor, experts: int, capacity: int) -> torch.Tensor:
    """Which tokens their expert has room for: of each expert's the first `capacity`. Built in lesson 20."""
    mine = torch.nn.functional.one_hot(choice, experts)
    place = (mine.cumsum(0) * mine).sum(1)  # first, second, ... of its expert
    return place <= capacity
