"""Lesson 05, When does it pay?: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, Values, questions
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.bandwidth import LEAST_BANDWIDTH
from labkit.exercises.lessons.stopwatch import SYNC_SECONDS


def _speeds(generator: torch.Generator, size: int) -> Arguments:
    """Seconds per sample, another number on each rank; and a batch, the same on all."""
    times = 1e-3 * (1 + torch.randperm(4, generator=generator)[:size] + torch.rand((), generator=generator))
    batch = 10 * int(torch.randint(5, 100, (), generator=generator))
    return [(t, batch) for t in times.tolist()]


def _shares(
    weight: Callable[[float], float], of: Callable[[int, int], float] = lambda batch, size: batch
) -> Values:
    """Per rank its part of what `of` gives, in proportion to its weight."""

    def shares(arguments: Arguments) -> list[float]:
        weights = [weight(t) for t, _ in arguments]
        return [of(arguments[0][1], len(arguments)) * w / sum(weights) for w in weights]

    return shares


def _speed(t: float) -> float:
    return 1 / t


def _rest(over: Callable[[int], int]) -> Values:
    """Per rank what its time leaves of all ranks' times, as a part of the batch."""

    def parts(arguments: Arguments) -> list[float]:
        total = sum(t for t, _ in arguments)
        return [batch * (1 - t / total) / over(len(arguments)) for t, batch in arguments]

    return parts


_NOT_THE_SPEED = (
    "That goes with 1 - t / (sum of all t), which is right for two ranks only. A rank that takes twice as "
    "long must do half as many samples: its part goes with 1 / t."
)


FAIR_SHARE = Exercise(
    task="A sample takes `t` seconds on this rank, and another time on every other. Deal `batch` samples so "
    "that all ranks finish together: return this rank's part, with one collective call. Don't round it.",
    stub="""\
def fair_share(t, batch):  # `batch` is the same number on every rank
    ...  # your code
""",
    solution="""\
def fair_share(t, batch):
    speeds = torch.tensor(1 / t, device=device)
    dist.all_reduce(speeds)
    return batch / t / speeds.item()
""",
    why="All finish together after the time batch / (sum of the speeds). In it each rank does that time over "
    "its own t: the faster it is, the more. Then nobody waits in the all-reduce. The mean of the gradients "
    "must be weighted then, as in lesson 03.",
    hints=(
        "How many samples per second does a rank do? And all of them together?",
        "A rank's part of the batch is its part of the speed: 1 / t over the sum of 1 / t on all ranks.",
    ),
    given=_speeds,
    judge=compare(
        _shares(_speed),
        Mistake(
            "That is an equal part for each. The slowest rank finishes last, and all others wait for it.",
            _shares(lambda t: 1),
        ),
        Mistake(
            "That is in proportion to t, so the slowest rank has the most to do. Turn it round: "
            "1 / t is a speed.",
            _shares(lambda t: t),
        ),
        Mistake(_NOT_THE_SPEED, _rest(lambda size: 1)),
        Mistake(_NOT_THE_SPEED, _rest(lambda size: size - 1)),
        Mistake(
            "That is a fraction, and the fractions add up to 1. Multiply by batch.",
            _shares(_speed, lambda batch, size: 1),
        ),
        Mistake(
            "You divide by the mean of the speeds, so together the ranks take R times the batch. "
            "Divide by their sum.",
            _shares(_speed, lambda batch, size: batch * size),
        ),
        Mistake(
            "You divide once too often: together the ranks take batch / R samples.",
            _shares(_speed, lambda batch, size: batch / size),
        ),
        Mistake(
            "Every rank takes the whole batch: what the others can do did not come here.",
            lambda arguments: [batch for _, batch in arguments],
        ),
        Mistake(
            "That is rounded, and then the parts need not add up to the batch. Return the fraction.",
            lambda arguments: [round(part) for part in _shares(_speed)(arguments)],
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "One sum over all ranks is enough: of what?"),),
)

LESSON = Lesson(
    number="05",
    title="When does it pay?",
    predictions=(Prediction("speed_up", "times as fast"),),
    exercises=(LEAST_BANDWIDTH, SYNC_SECONDS, FAIR_SHARE),
    questions=questions("05"),
)
