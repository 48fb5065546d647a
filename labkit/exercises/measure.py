"""What a learner's function used: counted in the trace of its messages, or told by the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from labkit.exercises.describe import Answers, Exercise, Limit
from labkit.trace import COMPUTE, Trace
from labkit.trace.chains import MESSAGE


@dataclass(frozen=True)
class Run:
    """One rank's part of one call: its answer, and what it used if that was asked for."""

    found: object = None
    memory: int = 0  # bytes of tensors alive at once, beyond those that the call was given
    time: float = 0.0  # processor time over the solution's, both the best of several
    risky: str = ""  # a request that makes values depend on chance: the rest of a sentence about the rank
    unsent: str = ""  # the same of a message that may never have left
    changed: str = ""  # an argument that it changed and should not have


@dataclass(frozen=True)
class Measure:
    """Something that can be limited: its unit in words, and how it is found."""

    unit: str
    of: Callable[[Trace, list[Run]], float]


def _collectives(trace: Trace, runs: list[Run]) -> int:
    calls = Counter(e.rank for e in trace.events if e.verb != COMPUTE and e.verb not in MESSAGE)
    return max(calls.values(), default=0)


def _handed(trace: Trace) -> int:
    """What the tensors hold that a rank passes to its collectives and sends."""
    handed: Counter[int] = Counter()
    for event in trace.events:
        handed[event.rank] += event.bytes * (event.verb not in (COMPUTE, "recv"))
    return max(handed.values(), default=0)


_OF_A_RING = {"all_reduce": 2.0, "reduce_scatter": 1.0, "reduce_scatter_tensor": 1.0, "all_to_all": 1.0}
"""How often what a rank passes leaves it, but for the part that stays: times (R - 1) / R."""


def _sent(trace: Trace) -> float:
    """What the busiest rank sends if collectives are rings, or send as much as those."""
    sent: Counter[int] = Counter()
    for event in trace.events:
        ranks = max(1, len(event.peers))
        if event.verb in _OF_A_RING:
            sent[event.rank] += round(_OF_A_RING[event.verb] * event.bytes * (ranks - 1) / ranks)
        elif event.verb.startswith("all_gather"):
            sent[event.rank] += event.bytes * (ranks - 1)
        elif event.verb not in (COMPUTE, "recv"):
            sent[event.rank] += event.bytes
    return max(sent.values(), default=0)


MEASURES = {
    "messages": Measure("messages in all", lambda trace, runs: len(trace.messages)),
    "bytes": Measure("bytes sent by the busiest rank", lambda trace, runs: max(trace.bytes_sent)),
    "sent": Measure("bytes sent, collectives as rings", lambda trace, runs: _sent(trace)),
    "steps": Measure("messages one after the other", lambda trace, runs: trace.steps),
    "handed": Measure("bytes handed to calls by a rank", lambda trace, runs: _handed(trace)),
    "collectives": Measure("collective calls on each rank", _collectives),
    "memory": Measure("bytes of new tensors at once", lambda trace, runs: max(r.memory for r in runs)),
    "time": Measure("processor time over the solution's", lambda trace, runs: max(r.time for r in runs)),
}


def _amount(exercise: Exercise, limit: Limit, trace: Trace, runs: list[Run]) -> float:
    """What one call used of it."""
    amount = MEASURES[limit.measure].of(trace, runs)
    return amount if limit.measure in ("memory", "time") else amount / exercise.calls


def over(exercise: Exercise, answers: Answers, trace: Trace, runs: list[Run]) -> str:
    """What is above its limit, in a sentence, or ""."""
    for limit in exercise.limits:
        amount, most = _amount(exercise, limit, trace, runs), limit.most(answers.arguments)
        if amount > most:
            return f"{MEASURES[limit.measure].unit} {number(amount)}, limit {number(most)}\n{limit.why}"
    return ""


def under(exercise: Exercise, answers: Answers, trace: Trace, runs: list[Run]) -> str:
    """Of what too little was used for the work to have been done, in a sentence, or ""."""
    for limit in exercise.limits:
        least = limit.least(answers.arguments) if limit.least else 0
        amount = _amount(exercise, limit, trace, runs)
        if amount < least:
            unit = MEASURES[limit.measure].unit
            return f"{unit} {number(amount)}, needed are {number(least)}\n{limit.too_little}"
    return ""


def risky(runs: list[Run]) -> str:
    """The first rank whose values depend on chance, by a request not waited for; in a sentence, or ""."""
    return next((f"rank {rank} {run.risky}" for rank, run in enumerate(runs) if run.risky), "")


def unsent(runs: list[Run]) -> str:
    """The first rank that does not wait for what it sends, in a sentence, or ""."""
    return next((f"rank {rank} {run.unsent}" for rank, run in enumerate(runs) if run.unsent), "")


def changed(runs: list[Run]) -> str:
    """The first rank that has changed an argument which is its caller's, in a sentence, or ""."""
    said = "every rank is right, but rank {} changed `{}`, which its caller goes on using: work on a copy"
    return next((said.format(rank, run.changed) for rank, run in enumerate(runs) if run.changed), "")


def used(exercise: Exercise, answers: Answers, trace: Trace, runs: list[Run]) -> str:
    """What was used of each limit: "messages in all 4 (limit 4)"."""
    return ", ".join(
        f"{MEASURES[limit.measure].unit} {number(_amount(exercise, limit, trace, runs))} "
        f"(limit {number(limit.most(answers.arguments))})"
        for limit in exercise.limits
    )


def lost(trace: Trace) -> str:
    """Messages that were sent and never received, in a sentence, or ""."""
    received = {id(send) for send, _ in trace.messages}
    pairs = sorted((e.rank, *e.peers) for e in trace.events if e.verb == "send" and id(e) not in received)
    return f"rank {pairs[0][0]} sent rank {pairs[0][1]} a message that nobody received" if pairs else ""


def number(value: float) -> str:
    """ "4", "1,200", "1.5"."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
