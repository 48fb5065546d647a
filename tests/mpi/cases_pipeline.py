"""torch.distributed.pipelining: the gradient of the pipeline equals that of the whole network."""

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from .table import case
from .world import close

WIDTH, MICROBATCHES = 6, 4


def layers(count):
    torch.manual_seed(3)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double() for _ in range(count)]


def loss(output, target):
    return (output - target).square().mean()


def pipeline(w, schedule, stages_per_rank=1):
    count = w.size * stages_per_rank
    parts, whole = layers(count), nn.Sequential(*layers(count))
    x = w.data(0, 8, WIDTH, dtype=torch.float64, salt="x")
    y = w.data(0, 8, WIDTH, dtype=torch.float64, salt="y")
    mine = [w.rank + i * w.size for i in range(stages_per_rank)]
    stages = [PipelineStage(parts[i], i, count, torch.device("cpu")) for i in mine]
    runner = schedule(stages if stages_per_rank > 1 else stages[0], MICROBATCHES, loss_fn=loss)
    losses = []
    arguments = (x,) if w.rank == 0 else ()
    last = w.rank == w.size - 1
    runner.step(*arguments, **({"target": y, "losses": losses} if last else {}))
    loss(whole(x), y).backward()
    for i in mine:
        for found, expected in zip(parts[i].parameters(), whole[i].parameters(), strict=True):
            close(found.grad, expected.grad)
    if last:
        close(torch.stack(losses).mean().detach(), loss(whole(x), y).detach())


@case(deadline=120)
def gpipe(w):
    pipeline(w, ScheduleGPipe)


@case(deadline=120)
def one_forward_one_backward(w):
    pipeline(w, Schedule1F1B)


@case(sizes=(2, 4), deadline=120)
def interleaved_stages(w):
    pipeline(w, ScheduleInterleaved1F1B, stages_per_rank=2)
