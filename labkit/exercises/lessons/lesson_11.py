"""Lesson 11, Live with stragglers: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, Values, questions
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.first_arrivals import FIRST_MEAN
from labkit.exercises.lessons.late_gradients import SERVE_FRESH

WORKERS = 6


def _logs(generator: torch.Generator, size: int) -> Arguments:
    """Each rank's log of how long workers computed, in another number of steps; and how many are needed.

    The mean of all times is not near that of the n-th to be done, whichever n.
    """
    while True:
        drawn = [torch.rand(5 + 3 * rank, WORKERS, generator=generator) for rank in range(size)]
        logs = [1 + log * (1 + rank) for rank, log in enumerate(drawn)]
        done = torch.cat(logs).sort(dim=1).values.mean(dim=0)
        if (done - done.mean()).abs().min() > 0.01:
            return [(log, WORKERS - 2) for log in logs]


def _means(of: Callable[[torch.Tensor, int], torch.Tensor]) -> Values:
    """The mean over all steps of of(sorted times of a step, needed)."""

    def mean(arguments: Arguments) -> torch.Tensor:
        needed = arguments[0][1]
        steps = torch.cat([log.sort(dim=1).values for log, _ in arguments])
        return of(steps, needed).mean()

    return everywhere(mean)


def _mean_of_means(arguments: Arguments) -> list[torch.Tensor]:
    means = [log.sort(dim=1).values[:, needed - 1].mean() for log, needed in arguments]
    return [sum(means) / len(means)] * len(means)


def _own_means(arguments: Arguments) -> list[torch.Tensor]:
    return [log.sort(dim=1).values[:, needed - 1].mean() for log, needed in arguments]


MEAN_STEP = Exercise(
    task="Each rank has a log `times` [S, W]: how long each of W workers computed in each of S steps; S "
    "differs from rank to rank. Return, on every rank, the mean over all steps of all ranks of the time "
    "until `needed` workers were done. One collective.",
    stub="""\
def mean_step(times, needed):
    ...  # your code
""",
    solution="""\
def mean_step(times, needed):
    done = times.sort(dim=1).values[:, needed - 1]
    total = torch.stack([done.sum(), torch.tensor(float(len(done)))])
    dist.all_reduce(total)
    return total[0] / total[1]
""",
    why="The n-th smallest of each row is when n workers were done. Sum and count go round in one tensor: "
    "logs of unequal length must not count alike, as unequal shards in lesson 03.",
    hints=(
        "Sort each row: times.sort(dim=1).values. Which column is it?",
        "all_reduce a tensor of two numbers, the sum and how many steps it is of. Divide afterwards.",
    ),
    given=_logs,
    judge=compare(
        _means(lambda steps, needed: steps[:, needed - 1]),
        Mistake(
            "This waits for all workers: the maximum of each row.", _means(lambda steps, needed: steps[:, -1])
        ),
        Mistake(
            "This waits for one worker more than it needs: columns count from 0.",
            _means(lambda steps, needed: steps[:, needed]),
        ),
        Mistake(
            "These are the slowest `needed`: the first to be done have the smallest times.",
            _means(lambda steps, needed: steps[:, -needed]),
        ),
        Mistake(
            "This is the mean of the ranks' means. Their logs differ in length: weight by it.", _mean_of_means
        ),
        Mistake("This is the mean of the rank's own log.", _own_means),
        Mistake(
            "This is the mean time of a worker, late or not. Sort each row, and take one column.",
            _means(lambda steps, needed: steps),
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "One tensor of two numbers needs one call."),),
)


LESSON = Lesson(
    number="11",
    title="Live with stragglers",
    predictions=(Prediction("slowest_of_100", "s"),),
    exercises=(SERVE_FRESH, MEAN_STEP, FIRST_MEAN),
    questions=questions("11"),
)
