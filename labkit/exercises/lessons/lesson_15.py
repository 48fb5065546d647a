"""Lesson 15, Cut the model by layers: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Choice,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    Question,
)
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.chain import CHAIN_STEP
from labkit.exercises.lessons.cuts import equal, fullest, least, wrong_cut
from labkit.exercises.lessons.fine_tuning import FINE_TUNE


def _sizes(generator: torch.Generator, size: int) -> Arguments:
    """Sizes for which equal numbers of layers are not the best cut."""
    while True:
        many = int(torch.randint(6, 11, (), generator=generator))
        sizes = torch.randint(1, 20, (many,), generator=generator).tolist()
        if fullest(equal(many, size), sizes) > least(sizes, size):
            return [(sizes, size)] * size


def _judged(answers: Answers) -> str:
    sizes, ranks = answers.arguments[0]
    for rank, found in enumerate(answers.found):
        problem = wrong_cut(found, sizes, ranks)
        if problem:
            return f"rank {rank} is wrong\n  of {sizes} it made {found}\n{problem}"
    if any(found != answers.found[0] for found in answers.found):
        return f"the ranks differ: rank 0 has {answers.found[0]}; all must cut in the same places"
    return ""


CUT_FOR_MEMORY = Exercise(
    task="`sizes` are the megabytes that each layer needs, whole numbers. Cut the layers, in their order, so "
    "that the fullest rank holds as little as possible. Return the number of layers of each rank, the same "
    "list on every rank, without a message. A rank may get 0 layers, and of several best cuts any one will "
    "do.",
    stub="""\
def cut_for_memory(sizes, ranks):
    ...  # your code
""",
    solution="""\
def cut_for_memory(sizes, ranks):
    for limit in range(max(sizes), sum(sizes) + 1):
        counts, room = [0], limit
        for size in sizes:
            if size > room:
                counts, room = [*counts, 0], limit
            counts[-1] += 1
            room -= size
        if len(counts) <= ranks:
            return counts + [0] * (ranks - len(counts))
""",
    why="Fill each rank up to a limit before the next one begins: no cut needs fewer ranks for that limit. "
    "The first limit for which the ranks suffice is the least. All ranks know the sizes, so all find the "
    "same cut, and need not talk.",
    hints=(
        "Turn it round: if no rank may hold more than so many megabytes, how many ranks are needed? Fill one "
        "after the other.",
        "Begin with a limit of max(sizes) and raise it by 1 until the ranks suffice.",
    ),
    given=_sizes,
    judge=_judged,
    limits=(
        Limit("collectives", lambda arguments: 0, "Every rank knows the sizes: each can find the cut alone."),
        Limit("messages", lambda arguments: 0, "Every rank knows the sizes: each can find the cut alone."),
    ),
)

LESSON = Lesson(
    number="15",
    title="Cut the model by layers",
    predictions=(Prediction("ranks_idle", "%"), Prediction("branches_speed_up", "times")),
    exercises=(CHAIN_STEP, FINE_TUNE, CUT_FOR_MEMORY),
    questions=(
        Question(
            "Five layers move from one device to five, one each. What becomes less?",
            (
                Choice("the time of a step", "Stages wait for each other, and messages come on top."),
                Choice("the memory on each device", "Parameters, gradients and activations are divided."),
                Choice("the multiplications", "They are the same, in the same order, elsewhere."),
            ),
            right="b",
        ),
        Question(
            "The whole batch becomes 8 times as large. What is sent in a step then?",
            (
                Choice(
                    "by layers and by data: 8 times as much", "Gradients of parameters do not grow with B."
                ),
                Choice("by data 8 times as much", "Data parallelism sends P numbers, whatever the batch."),
                Choice("by layers 8 times as much", "B a numbers cross each cut; P is still P."),
            ),
            right="c",
        ),
        Question(
            "Four paths of a block take 1, 8, 1 and 2 ms. How many times as fast are four devices?",
            (
                Choice("1.5 times, at most", "12 ms one after the other, and the longest takes 8."),
                Choice("4 times", "Only if all paths were equally long."),
                Choice("3 times", "The mean path takes 3 ms, but the block is done when the longest is."),
            ),
            right="a",
        ),
    ),
)
