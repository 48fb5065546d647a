"""Lesson 05, When does it pay?: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Choice, Exercise, Lesson, Limit, Prediction, Question, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch


def _stopwatches(generator: torch.Generator, size: int) -> Arguments:
    """Seconds per sample, equal on all ranks; and of an all-reduce, longer the earlier a rank came."""
    t, t_sync = ((0.5 + torch.rand(2, generator=generator)) * torch.tensor([1e-3, 0.1])).tolist()
    early = torch.linspace(0, 0.2, size)[torch.randperm(size, generator=generator)]
    return [(t, t_sync + wait) for wait in early.tolist()]


def _batch(
    t_sync: Callable[[list[float]], float], ranks: Callable[[Arguments], int]
) -> Callable[[Arguments], float]:
    """From how many samples on it pays, from this value of T_sync, and with this divisor."""
    return lambda arguments: t_sync([seen for _, seen in arguments]) / (ranks(arguments) * arguments[0][0])


def _others(arguments: Arguments) -> int:
    return len(arguments) - 1


def _mean(times: list[float]) -> float:
    return sum(times) / len(times)


LEAST_BATCH = Exercise(
    task="A sample takes `t` seconds to compute, on every rank. `seen` is what the rank's own stopwatch said "
    "for one all-reduce, with **no** barrier before it. Return from how many samples per rank on it pays, "
    "the same number on every rank, with one collective call.",
    stub="""\
def least_batch(t, seen):  # seconds; `seen` is another number on each rank
    ...  # your code
""",
    solution="""\
def least_batch(t, seen):
    t_sync = torch.tensor(seen, device=device)
    dist.all_reduce(t_sync, op=dist.ReduceOp.MIN)
    return t_sync.item() / ((world_size - 1) * t)
""",
    why="The rank that came last waited for nobody, so the shortest time is T_sync. The rest is the "
    "condition of the lesson, with B t in place of T_comp, solved for B.",
    hints=(
        "First the formula: write B t in place of T_comp in T_sync < (R - 1) T_comp, and solve it for B.",
        "Then T_sync: a rank that comes early waits, and its stopwatch runs. Which rank did not wait? "
        "dist.all_reduce has an argument op; dist.ReduceOp has SUM, MAX and MIN.",
    ),
    given=_stopwatches,
    judge=compare(
        everywhere(_batch(min, _others)),
        Mistake(
            "Each rank believes its own stopwatch. It ran while the rank waited for the others.",
            lambda arguments: [seen / (_others(arguments) * t) for t, seen in arguments],
        ),
        Mistake(
            "That is the longest of the stopwatches. It ran while its rank waited for the others; "
            "whose stopwatch shows the all-reduce alone?",
            everywhere(_batch(max, _others)),
        ),
        Mistake(
            "That is the mean of the stopwatches. Most of them ran while their rank waited; "
            "whose stopwatch shows the all-reduce alone?",
            everywhere(_batch(_mean, _others)),
        ),
        Mistake(
            "That is the sum of the stopwatches, and they ran at the same time. Take one: "
            "whose shows the all-reduce alone?",
            everywhere(_batch(sum, _others)),
        ),
        Mistake(
            "You divide by R. The first rank computes its own share: it is the R - 1 others who must pay "
            "for T_sync.",
            everywhere(_batch(min, len)),
        ),
        Mistake(
            "R - 1 is missing: each of the other ranks saves you a T_comp.",
            everywhere(_batch(min, lambda arguments: 1)),
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "One call can find the shortest of all times."),),
)


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
    exercises=(LEAST_BATCH, FAIR_SHARE),
    questions=(
        Question(
            "T_comp is 50 ms and T_sync 120 ms. Do 4 ranks pay?",
            (
                Choice(
                    "No, T_sync is larger.",
                    "Three other ranks have computed 3 x 50 ms for you in the meantime: more than 120 ms.",
                ),
                Choice("Yes, they are 1.2 times as fast.", "4 x 50 / (50 + 120) is 1.18."),
                Choice("Yes, they are 4 times as fast.", "That takes a T_sync of 0."),
            ),
            right="b",
        ),
        Question(
            "Four ranks share two cores. You measured T_comp on one rank while the others slept. Your "
            "prediction of the epoch is",
            (
                Choice("too short", "With all four at work each gets half a core."),
                Choice("too long", "Nothing makes a rank faster when the others compute, too."),
                Choice("right", "It would be with a core for each."),
            ),
            right="a",
        ),
        Question(
            "You shard a fixed batch over twice as many ranks (strong scaling). Bytes count, not latency. "
            "Which T changes most?",
            (
                Choice("T_comp: it halves", "Each rank has half the samples. T_sync stays almost as it was."),
                Choice(
                    "T_sync: it doubles",
                    "A ring sends 2(R - 1)/R of the gradients, less than twice their size for any R.",
                ),
                Choice(
                    "Neither changes", "That would be weak scaling: the same samples per rank, more of them."
                ),
            ),
            right="a",
        ),
    ),
)
