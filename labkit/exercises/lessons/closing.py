"""When a batch of requests closes: a heart of lesson 23."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

Close = Callable[[Sequence[float], float, int, float], int]

HERE = "What is waiting is all in the arguments: no other rank is needed."
ALONE = (
    Limit("collectives", lambda arguments: 0, HERE),
    Limit("messages", lambda arguments: 0, HERE),
)


def _queues(generator: torch.Generator, size: int) -> Arguments:
    """Per rank six queues, each with the time at which it is looked at, in a random order.

    Full, more than full, the oldest late, one alone and late, nobody late, nobody there.
    """

    def one() -> tuple:
        most = int(torch.randint(4, 9, (), generator=generator))
        timeout = 0.02 + 0.1 * float(torch.rand((), generator=generator))

        def queue(length: int, age: float) -> tuple[list[float], float]:
            """The oldest has waited `age` time-outs, the newest a quarter of one, and now is something."""
            now = 10 * float(torch.rand((), generator=generator)) + timeout * 3
            ages = torch.linspace(age, 0.25, length).tolist() if length > 1 else [age] * length
            return [now - waited * timeout for waited in ages], now

        queues = [
            queue(most, 0.8),
            queue(most + 2, 0.8),
            queue(most - 1, 1.5),
            queue(1, 1.2),
            queue(most - 2, 0.9),
            queue(0, 0.0),
        ]
        order = torch.randperm(len(queues), generator=generator).tolist()
        return [queues[i][0] for i in order], [queues[i][1] for i in order], most, timeout

    return [one() for _ in range(size)]


def _each(function: Close, arguments: tuple) -> Any:
    queues, times, most, timeout = arguments
    return [function(list(queue), now, most, timeout) for queue, now in zip(queues, times, strict=True)]


def _by(close: Close) -> Values:
    return lambda arguments: [_each(close, given) for given in arguments]


def _closed(arrived: Sequence[float], now: float, most: int, timeout: float, oldest: int = 0) -> int:
    if len(arrived) >= most:
        return most
    return len(arrived) if arrived and now - arrived[oldest] >= timeout else 0


CLOSE_BATCH = Exercise(
    task="`arrived` has the times at which the waiting requests came, the oldest first; it may be empty. "
    "Return how many of them, from the oldest on, become a batch at the time `now`; 0 for none. A batch "
    "closes when it is full, with `most` requests, or when the oldest has waited `timeout` seconds or more.",
    stub="""\
def my_close_batch(arrived, now, most, timeout):
    ...  # your code
""",
    solution="""\
def my_close_batch(arrived, now, most, timeout):
    if len(arrived) >= most:
        return most
    if arrived and now - arrived[0] >= timeout:
        return len(arrived)
    return 0
""",
    why="The oldest waits longest, so its time-out is the promise that holds for all. And since it is looked "
    "at whenever time has passed, not only when a request comes, even a single request is run.",
    hints=(
        "Three cases: full, the oldest late, neither. Of more than `most` requests the others stay.",
        "arrived[0] is the oldest, if there is one: `if arrived and now - arrived[0] >= timeout`.",
    ),
    given=_queues,
    use=_each,
    judge=compare(
        _by(_closed),
        Mistake(
            "The time-out is counted from the newest request. While requests keep coming, the oldest waits "
            "for ever: count from arrived[0].",
            _by(lambda arrived, now, most, timeout: _closed(arrived, now, most, timeout, oldest=-1)),
        ),
        Mistake(
            "Only full batches run: the last request of a quiet hour is never answered.",
            _by(lambda arrived, now, most, timeout: most if len(arrived) >= most else 0),
        ),
        Mistake(
            "A batch has at most `most` requests; the others stay in the queue.",
            _by(
                lambda arrived, now, most, timeout: (
                    len(arrived) if _closed(arrived, now, most, timeout) else 0
                )
            ),
        ),
        Mistake(
            "Whoever waits is run at once: nobody ever waits for others, and batches stay small.",
            _by(lambda arrived, now, most, timeout: min(len(arrived), most)),
        ),
        Mistake(
            "A full batch waits for the time-out: nobody more can join it, so close it at once.",
            _by(
                lambda arrived, now, most, timeout: (
                    min(len(arrived), most) if arrived and now - arrived[0] >= timeout else 0
                )
            ),
        ),
    ),
    limits=ALONE,
    becomes="close_batch",
)
