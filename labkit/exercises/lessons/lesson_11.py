"""Lesson 11, Live with stragglers: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import combinations

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Choice,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    Question,
    Values,
)
from labkit.exercises.judge import Mistake, close, compare, everywhere, show
from labkit.exercises.lazy_torch import torch

WORKERS = 6
LATE = 0.3
"""Seconds that the late rank of the second exercise sleeps: long against the others' messages."""


def _logs(generator: torch.Generator, size: int) -> Arguments:
    """Each rank's log of how long workers computed, in another number of steps; and how many are needed."""
    logs = [1 + torch.rand(5 + 3 * rank, WORKERS, generator=generator) * (1 + rank) for rank in range(size)]
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


def _vectors(generator: torch.Generator, size: int) -> Arguments:
    late = int(torch.randint(1, size, (), generator=generator))
    return [(torch.randn(5, generator=generator), size - 2, late, LATE) for _ in range(size)]


def _judge_first(answers: Answers) -> str:
    """Who comes first is left to chance, but for the late one, who comes last."""
    _, needed, late, _ = answers.arguments[0]
    mine, found = [arguments[0] for arguments in answers.arguments], answers.found[0]
    workers = [rank for rank in range(1, answers.size) if rank != late]
    if any(close(found, _mean(mine, group)) for group in combinations(workers, needed)):
        return compare(lambda arguments: [found, *mine[1:]])(answers)
    lines = [f"rank 0 is wrong: it has {show(found)}", "which is no mean of the first that came"]
    for group, says in (
        (range(1, answers.size), "It is the mean of all workers: do not wait for the last."),
        (range(answers.size), "It is the mean of all ranks. Only ranks from 1 on send."),
    ):
        if close(found, _mean(mine, group)):
            return "\n".join([lines[0], says])
    everyone = combinations(range(1, answers.size), needed)
    if any(close(found, _mean(mine, group)) for group in everyone):
        return "\n".join([lines[0], f"Rank {late} came last, and is in it: receive from whoever comes."])
    if any(close(found, needed * _mean(mine, group)) for group in combinations(workers, needed)):
        return "\n".join([lines[0], "It is a sum: divide it by `needed`."])
    return "\n".join(lines)


def _mean(vectors: list[torch.Tensor], ranks: Collection[int]) -> torch.Tensor:
    return sum(vectors[rank] for rank in ranks) / len(ranks)


FIRST_MEAN = Exercise(
    task="Ranks from 1 on each send their vector `mine` to rank 0; rank `late` sleeps `seconds` before. Rank "
    "0 returns the mean of the first `needed` vectors that arrive, the others return `mine`. No message may "
    "be left behind.",
    stub="""\
def first_mean(mine, needed, late, seconds):
    ...  # your code
""",
    solution="""\
import time

def first_mean(mine, needed, late, seconds):
    if rank > 0:
        time.sleep(seconds if rank == late else 0)
        dist.send(mine, 0)
        return mine
    total, message = torch.zeros_like(mine), torch.empty_like(mine)
    for arrived in range(1, world_size):
        dist.recv(message)
        if arrived <= needed:
            total += message
    return total / needed
""",
    why="recv without a source takes the next that comes. A gradient that is not wanted has to be received "
    "all the same, or the next step would take it for its own.",
    hints=(
        "On rank 0: dist.recv(message) without a source, world_size - 1 times.",
        "Add up the first `needed`, and let the others lie. Divide by `needed`.",
    ),
    given=_vectors,
    judge=_judge_first,
    sizes=(3, 4),
    limits=(
        Limit("collectives", lambda arguments: 0, "A collective waits for every rank, the late one, too."),
        Limit("messages", lambda arguments: len(arguments) - 1, "One message from each worker."),
    ),
)

LESSON = Lesson(
    number="11",
    title="Live with stragglers",
    predictions=(Prediction("slowest_of_100", "s"),),
    exercises=(MEAN_STEP, FIRST_MEAN),
    questions=(
        Question(
            "Each of 100 workers is late in 1 of 100 steps. How many steps are late, if all are waited for?",
            (
                Choice("1 of 100", "That is one worker. A step is late if any of them is."),
                Choice("about 63 of 100", "All are in time with probability 0.99 to the power of 100: 37 %."),
                Choice("all", "In 37 of 100 steps nobody is late."),
            ),
            right="b",
        ),
        Question(
            "A gradient comes after its update. What does the server do with it?",
            (
                Choice("It adds it to the next update.", "It is of older weights: that is staleness again."),
                Choice("It drops it.", "And sends its worker the weights of now."),
                Choice("It waits for it.", "Then there was no need for a backup."),
            ),
            right="b",
        ),
        Question(
            "The same worker is always the slowest, and it alone has certain data. One backup worker",
            (
                Choice("is the remedy", "Its gradients are dropped every time."),
                Choice("hides the data from the training", "Nothing fails, and that data is never learnt."),
                Choice("makes gradients stale", "Those that are used are of the weights that they change."),
            ),
            right="b",
        ),
    ),
)
