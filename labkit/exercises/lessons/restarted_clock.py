"""A batcher whose time-out starts anew with every request: the bug to find in lesson 23."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.closing import ALONE


def _stream(generator: torch.Generator, size: int) -> Arguments:
    """Per rank requests in which each time-out ends while others still come, some batches are full, and the
    last request is alone."""

    def one() -> tuple:
        most = int(torch.randint(4, 7, (), generator=generator))
        gap = 0.005 + 0.01 * float(torch.rand((), generator=generator))
        timeout = (most - 1.5) * gap  # a steady stream: most - 1 requests before it is over
        burst = [0.2 * gap * i for i in range(most)]
        steady = [burst[-1] + 9 * gap + gap * i for i in range(3 * most)]
        arrivals = [*burst, *steady, steady[-1] + 9 * gap]
        begin = float(torch.rand((), generator=generator))
        return [begin + t for t in arrivals], most, timeout

    return [one() for _ in range(size)]


def _listed(function: Callable[..., Any], arguments: tuple) -> Any:
    arrivals, most, timeout = arguments
    result = function(list(arrivals), most, timeout)
    return [list(pair) for pair in result] if isinstance(result, (list, tuple)) else result


def _batches(arrivals: list[float], most: int, timeout: float, oldest: bool = True) -> list[list[float]]:
    waiting: list[float] = []
    batches = []
    for now, following in zip(arrivals, [*arrivals[1:], float("inf")], strict=True):
        waiting.append(now)
        closes = now if len(waiting) == most else (waiting[0] if oldest else now) + timeout
        if following > closes:
            batches.append([closes, len(waiting)])
            waiting = []
    return batches


def _seen_at_arrivals(arrivals: list[float], most: int, timeout: float) -> list[list[float]]:
    """The time-out is looked at only when a request comes; the last one stays."""
    waiting: list[float] = []
    batches = []
    for now in arrivals:
        waiting.append(now)
        if len(waiting) == most or now - waiting[0] >= timeout:
            batches.append([now, len(waiting)])
            waiting = []
    return batches


def _of(batches: Callable[[list[float], int, float], list[list[float]]]) -> Values:
    return lambda arguments: [batches(*given) for given in arguments]


BATCHES = Exercise(
    task="`arrivals` are the times at which requests come, in order. The function returns, of each batch, "
    "when it closes and how many requests it has: full, with `most` requests, or when the oldest has waited "
    "`timeout` seconds. It runs without an error, every request is in a batch, and in a steady stream "
    "latencies are many times what the time-out promises. **Find the bug and mend it.**",
    stub="""\
def my_batches(arrivals, most, timeout):
    waiting, batches = [], []
    for now, following in zip(arrivals, [*arrivals[1:], float("inf")]):
        waiting.append(now)
        closes = now if len(waiting) == most else now + timeout
        if following > closes:
            batches.append((closes, len(waiting)))
            waiting = []
    return batches
""",
    solution="""\
def my_batches(arrivals, most, timeout):
    waiting, batches = [], []
    for now, following in zip(arrivals, [*arrivals[1:], float("inf")]):
        waiting.append(now)
        closes = now if len(waiting) == most else waiting[0] + timeout
        if following > closes:
            batches.append((closes, len(waiting)))
            waiting = []
    return batches
""",
    why="`now + timeout` starts the clock anew with each request. As long as the next one comes within the "
    "time-out, the batch closes only when it is full: the oldest request pays for every newcomer. The clock "
    "belongs to the oldest, waiting[0].",
    hints=(
        "A request comes every 5 ms, the time-out is 8 ms, a batch has room for 1,000. When does the first "
        "batch close, by this function?",
        "Whose time-out is it? The line `closes = ...` counts from the request that has just come.",
    ),
    given=_stream,
    use=_listed,
    judge=compare(
        _of(_batches),
        Mistake(
            "Each request starts the time-out anew: while they keep coming, a batch closes only when it is "
            "full. Count from the oldest.",
            _of(lambda arrivals, most, timeout: _batches(arrivals, most, timeout, oldest=False)),
        ),
        Mistake(
            "The clock is looked at only when a request comes: batches close late, and the last request is "
            "never answered.",
            _of(_seen_at_arrivals),
        ),
        Mistake(
            "Every request is a batch of its own: nobody waits for others.",
            _of(lambda arrivals, most, timeout: [[t, 1] for t in arrivals]),
        ),
        Mistake(
            "A batch closes as soon as it is full; nobody can join it any more.",
            _of(
                lambda arrivals, most, timeout: [
                    [closes if n < most else arrivals[at] + timeout, n]
                    for (closes, n), at in _with_first(_batches(arrivals, most, timeout))
                ]
            ),
        ),
        tolerance=1e-9,
    ),
    limits=ALONE,
)


def _with_first(batches: list[list[float]]) -> list[tuple[list[float], int]]:
    """Each batch with the place of its first request."""
    firsts = [sum(int(n) for _, n in batches[:i]) for i in range(len(batches))]
    return list(zip(batches, firsts, strict=True))
