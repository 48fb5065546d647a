"""Schedules: communication as data, which is checked, counted, drawn, simulated, and run on real ranks.

Per rank a tuple of steps, per step the operations that run at the same time, rendezvous semantics. Built in
lesson 06.

description   what every rank sends, receives and computes
rounds        the same for thousands of ranks
pipeline      a pipeline as data
rendezvous    which send meets which receive
checks/       what is wrong with a schedule
counts        steps, bytes and memory
states        what every rank holds after every step
runner        runs a schedule on real ranks
"""

from labkit.schedule.checks import check, violations
from labkit.schedule.checks.budget import Budget
from labkit.schedule.checks.pipeline import pipeline_violations
from labkit.schedule.checks.violation import Violation
from labkit.schedule.counts import boundary, chunk_bytes, peak_memory, sent_bytes, steps
from labkit.schedule.description import Compute, Copy, Recv, Reduce, Schedule, Send, compute, label, table
from labkit.schedule.pipeline import Backward, Forward, pipeline_schedule, stored
from labkit.schedule.rounds import Round, Rounds
from labkit.schedule.runner import run
from labkit.schedule.states import execute, states

__all__ = [
    "Backward",
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
