"""What a learner's function used: counted in the trace of its messages, or told by the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from labkit.exercises.describe import Answers, Exercise
from labkit.trace import COMPUTE, Trace
from labkit.trace.chains import MESSAGE


@dataclass(frozen=True)
class Run:
    """One rank's part of one call: its answer, and what it used if that was asked for."""

    found: object = None
    memory: int = 0  # bytes of tensors alive at once, beyond those that the call was given
    time: float = 0.0  # seconds over those of the solution, both the best of several


@dataclass(frozen=True)
class Measure:
    """Something that can be limited: its unit in words, and how it is found."""

    unit: str
    of: Callable[[Trace, list[Run]], float]


def _collectives(trace: Trace, runs: list[Run]) -> int:
    calls = Counter(e.rank for e in trace.events if e.verb != COMPUTE and e.verb not in MESSAGE)
    return max(calls.values(), default=0)


MEASURES = {
    "messages": Measure("messages in all", lambda trace, runs: len(trace.messages)),
    "bytes": Measure("bytes sent by the busiest rank", lambda trace, runs: max(trace.bytes_sent)),
    "steps": Measure("messages one after the other", lambda trace, runs: trace.steps),
    "collectives": Measure("collective calls on each rank", _collectives),
    "memory": Measure("bytes of new tensors at once", lambda trace, runs: max(r.memory for r in runs)),
    "time": Measure("times the solution's time", lambda trace, runs: max(r.time for r in runs)),
}


def over(exercise: Exercise, answers: Answers, trace: Trace, runs: list[Run]) -> str:
    """What is above its limit, in a sentence, or ""."""
    for limit in exercise.limits:
        amount, most = MEASURES[limit.measure].of(trace, runs), limit.most(answers.arguments)
        if amount > most:
            return f"{MEASURES[limit.measure].unit} {number(amount)}, limit {number(most)}\n{limit.why}"
    return ""


def used(exercise: Exercise, answers: Answers, trace: Trace, runs: list[Run]) -> str:
    """What was used of each limit: "messages in all 4 (limit 4)"."""
    return ", ".join(
        f"{MEASURES[limit.measure].unit} {number(MEASURES[limit.measure].of(trace, runs))} "
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
