"""Schedules: communication as data, which is checked, counted, drawn, simulated, and run on real ranks.

Per rank a tuple of steps, per step the operations that run at the same time, rendezvous semantics. Built in
lesson 07.

chunks        the parts of a tensor: their names, and where they begin and end
operations    what a rank can do in a step: Send, Recv, Reduce, Copy, Compute
description   the Schedule that such steps make
rounds        a schedule of thousands of ranks, as arrays
pipeline      a pipeline's slots, and the schedule that they make
access        which chunks an operation reads, writes and frees
counts        steps, bytes and peak memory
rendezvous    which send meets which receive, and in what order steps can end
states        what every rank holds after every step, in memory
runner        the same on real ranks, with torch.distributed
checks/       what is wrong with a schedule, or a pipeline
"""

from labkit.schedule.checks import check, violations
from labkit.schedule.checks.budget import Budget
from labkit.schedule.checks.pipeline import pipeline_violations
from labkit.schedule.checks.violation import Violation
from labkit.schedule.chunks import boundary, label
from labkit.schedule.counts import chunk_bytes, peak_memory, sent_bytes, steps
from labkit.schedule.description import Schedule, compute, table
from labkit.schedule.operations import Compute, Copy, Recv, Reduce, Send
from labkit.schedule.pipeline import Backward, BackwardWeight, Forward, pipeline_schedule, stored
from labkit.schedule.rounds import Round, Rounds
from labkit.schedule.runner import run
from labkit.schedule.states import execute, states

__all__ = [
    "Backward",
    "BackwardWeight",
    "Budget",
    "Compute",
    "Copy",
    "Forward",
    "Recv",
    "Reduce",
    "Round",
    "Rounds",
    "Schedule",
    "Send",
    "Violation",
    "boundary",
    "check",
    "chunk_bytes",
    "compute",
    "execute",
    "label",
    "peak_memory",
    "pipeline_schedule",
    "pipeline_violations",
    "run",
    "sent_bytes",
    "states",
    "steps",
    "stored",
    "table",
    "violations",
]
