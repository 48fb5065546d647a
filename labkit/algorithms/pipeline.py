"""Pipeline schedules, and what every rank does in its slots. Built in lesson 17.

Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS
2019, arXiv 1811.06965. D. Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training",
SOSP 2019, arXiv 1806.03377; its 1F1B is here with one update per batch.
"""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from labkit.schedule import Backward, Forward
from labkit.schedule.pipeline import Slot
from labkit.trace import Trace


def gpipe(stages: int, microbatches: int) -> list[list[Slot]]:
    """All forwards, then all backwards; every stage stores all micro-batches. Built in lesson 17.

    >>> print(*gpipe(2, 3)[0])
    F0 F1 F2 B0 B1 B2
    """
    every = range(microbatches)
    return [[*map(Forward, every), *map(Backward, every)] for stage in range(stages)]


def one_forward_one_backward(stages: int, microbatches: int) -> list[list[Slot]]:
    """1F1B: backward as soon as can be; stage s stores `stages` - s micro-batches at most.

    Built in lesson 17.

    >>> for own in one_forward_one_backward(2, 3):
    ...     print(*own)
    F0 F1 B0 F2 B1 B2
    F0 B0 F1 B1 F2 B2
    """
    slots: list[list] = []
    for stage in range(stages):
        ahead = min(stages - stage, microbatches)
        slots.append([Forward(m) for m in range(ahead)])
        for m in range(microbatches):
            slots[stage].append(Backward(m))
            if m + ahead < microbatches:
                slots[stage].append(Forward(m + ahead))
    return slots


def bubble(stages: int, microbatches: int) -> float:
    """Share of the time that stages stand idle, if all take equally long: (K - 1) / (M + K - 1).

    Huang et al., section 2.3. Built in lesson 17.

    >>> round(bubble(4, 8), 3)
    0.273
    """
    return (stages - 1) / (microbatches + stages - 1)


def idle_share(trace: Trace) -> float:
    """Share of the ranks' time, from 0 to the last end, in which they do not compute. Built in lesson 17."""
    end = max(event.end for event in trace.events)
    busy = sum(e.end - e.start for e in trace.events if e.verb == "compute")
    return 1 - busy / (trace.world_size * end)


def forward_pass(
    stage: Callable, loss: Callable, x: torch.Tensor, y: torch.Tensor, like: torch.Tensor, sent: list
) -> tuple[torch.Tensor, torch.Tensor]:
    """Take one micro-batch through this rank's stage; returns the stage's input, and its output or the loss.

    Rank 0 takes x, any other its left neighbour's output, which has shape and dtype of `like`. The last rank
    returns loss(output, y), any other sends its output on and appends the send to `sent`. Built in lesson 17.
    """
    rank = dist.get_rank()
    if rank > 0:
        x = torch.empty_like(like)
        dist.recv(x, rank - 1)
        x.requires_grad_()
    output = stage(x)
    if rank == dist.get_world_size() - 1:
        return x, loss(output, y)
    sent.append(dist.isend(output.detach(), rank + 1))
    return x, output


def backward_pass(x: torch.Tensor, output: torch.Tensor, sent: list) -> None:
    """Add one micro-batch's part to the gradients of this rank's stage: the way back of `forward_pass`.

    x and `output` are what that returned. The gradient of x goes to the left neighbour; the send is appended
    to `sent`. Built in lesson 17.
    """
    rank, gradient = dist.get_rank(), None
    if rank < dist.get_world_size() - 1:
        gradient = torch.empty_like(output)
        dist.recv(gradient, rank + 1)
    output.backward(gradient)
    if rank > 0:
        sent.append(dist.isend(x.grad, rank - 1))


def run_pipeline(
    own: Sequence[Slot],
    stage: Callable,
    batches: Sequence[tuple[torch.Tensor, torch.Tensor]],
    loss: Callable,
    like: torch.Tensor,
) -> None:
    """Work through this rank's slots: every rank calls it. Leaves the gradients in the stage's parameters.

    `batches`: the micro-batches (x, y); rank 0 uses x, the last rank y. `loss(output, y)` is a micro-batch's
    part of the loss: its mean over the number of micro-batches. `like`: see `forward_pass`.

    Built in lesson 17.
    """
    kept, sent = {}, []
    for slot in own:
        m = slot.microbatch
        if isinstance(slot, Forward):
            kept[m] = forward_pass(stage, loss, *batches[m], like, sent)
        else:
            backward_pass(*kept.pop(m), sent)
        sent = [work for work in sent if not work.is_completed()]
    for work in sent:
        work.wait()
