"""Pipeline schedules, and what every rank does in its slots. Built in lesson 15.

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
    """All forwards, then all backwards; every stage stores all micro-batches. Built in lesson 15.

    >>> print(*gpipe(2, 3)[0])
    F0 F1 F2 B0 B1 B2
    """
    every = range(microbatches)
    return [[*map(Forward, every), *map(Backward, every)] for stage in range(stages)]


def one_forward_one_backward(stages: int, microbatches: int) -> list[list[Slot]]:
    """1F1B: backward as soon as can be; stage s stores `stages` - s micro-batches at most.

    Built in lesson 15.

    >>> for own in one_forward_one_backward(2, 3):
    ...     print(*own)
    F0 F1 B0 F2 B1 B2
    F0 B0 F1 B1 F2 B2
    """
    slots = []
    for stage in range(stages):
        ahead = min(stages - stage, microbatches)
        own = [Forward(m) for m in range(ahead)]
        for m in range(microbatches):
            own.append(Backward(m))
            if m + ahead < microbatches:
                own.append(Forward(m + ahead))
        slots.append(own)
    return slots


def bubble(stages: int, microbatches: int) -> float:
    """Share of the time that stages stand idle, if all take equally long: (K - 1) / (M + K - 1).

    Huang et al., section 2.3. Built in lesson 15.

    >>> round(bubble(4, 8), 3)
    0.273
    """
    return (stages - 1) / (microbatches + stages - 1)


def idle_share(trace: Trace) -> float:
    """Share of the ranks' time, from 0 to the last end, in which they do not compute. Built in lesson 15."""
    end = max(event.end for event in trace.events)
    busy = sum(e.end - e.start for e in trace.events if e.verb == "compute")
    return 1 - busy / (trace.world_size * end)


def forward_pass(
    stage: Callable, x: torch.Tensor, like: torch.Tensor, sent: list
) -> tuple[torch.Tensor, torch.Tensor]:
    """Input and output of this rank's stage for one micro-batch; the output is on its way to the next rank.

    x is used on rank 0 alone; `like` has shape and dtype of what stages hand on. The send is appended to
    `sent`. Built in lesson 15.
    """
    rank = dist.get_rank()
    if rank > 0:
        x = torch.empty_like(like)
        dist.recv(x, rank - 1)
        x.requires_grad_()
    output = stage(x)
    if rank < dist.get_world_size() - 1:
        sent.append(dist.isend(output.detach(), rank + 1))
    return x, output


def backward_pass(x: torch.Tensor, output: torch.Tensor, sent: list) -> None:
    """Add to the gradients of this rank's stage; the gradient of its input x is on its way back.

    On the last rank `output` is the loss. The send is appended to `sent`. Built in lesson 15.
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
) -> float:
    """Work through this rank's slots; a collective. Leaves in the stage the gradients of the mean loss.

    `batches`: the micro-batches (x, y), of one size, on every rank, though only rank 0 uses x and only the
    last rank y. `loss(output, y)` is a mean over samples. `like`: see `forward_pass`. Returns the loss on the
    last rank, 0 on the others. Built in lesson 15.
    """
    is_last = dist.get_rank() == dist.get_world_size() - 1
    kept, sent, total = {}, [], 0.0
    for slot in own:
        m = slot.microbatch
        if isinstance(slot, Forward):
            kept[m] = forward_pass(stage, batches[m][0], like, sent)
            if is_last:
                kept[m] = kept[m][0], loss(kept[m][1], batches[m][1]) / len(batches)
                total += kept[m][1].item()
        else:
            backward_pass(*kept.pop(m), sent)
        sent = [work for work in sent if not work.is_completed()]
    for work in sent:
        work.wait()
    return total
