"""Independent branches of a network side by side, between two points of synchronisation. Lesson 15."""

import torch
import torch.distributed as dist


def forward_branches(
    path: torch.nn.Module, x: torch.Tensor, channels: list[int], group: dist.ProcessGroup | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Give rank 0's x to every rank's path, and gather the parts on rank 0; returns this rank's and those.

    x is [N, C, H, W] on every rank and is overwritten by rank 0's; the path of rank r returns [N,
    channels[r], H, W]. The second tensor returned is all of them side by side on rank 0, elsewhere the
    rank's own part. A collective of the group, whose ranks are 0, 1, ... Built in lesson 15.
    """
    dist.broadcast(x, 0, group)
    part = path(x.requires_grad_())
    if dist.get_rank() > 0:
        dist.send(part.detach(), 0, group)
        return part, part
    parts = [part.detach()]
    for source, c in enumerate(channels[1:], 1):
        parts.append(part.new_empty(len(x), c, *part.shape[2:]))
        dist.recv(parts[source], source, group)
    return part, torch.cat(parts, 1)


def backward_branches(
    x: torch.Tensor,
    part: torch.Tensor,
    grad: torch.Tensor,
    channels: list[int],
    group: dist.ProcessGroup | None = None,
) -> None:
    """Hand each rank its channels of rank 0's grad, go back, and add up the gradients of x.

    x and part as `forward_branches` had them; grad is that of the block's output on rank 0, and is not
    looked at elsewhere. Leaves the whole gradient in x.grad on every rank. A collective of the group.
    Built in lesson 15.
    """
    mine = torch.empty_like(part)
    if dist.get_rank() == 0:
        first, *others = grad.split(channels, 1)
        mine.copy_(first)
        for to, other in enumerate(others, 1):
            dist.send(other.contiguous(), to, group)
    else:
        dist.recv(mine, 0, group)
    part.backward(mine)
    dist.all_reduce(x.grad, group=group)
