"""Live with stragglers."""

from labkit.exercises.describe import Choice, Exercise, Lesson, Limit, Prediction, Question
from labkit.exercises.judge import Mistake, compare


def _tensors(generator, size):
    """The arguments of every rank's call."""
    import torch

    return [(torch.randn(4, generator=generator),) for _ in range(size)]


def _sums(arguments):
    """What every rank must return."""
    return [sum(mine for (mine,) in arguments)] * len(arguments)


def _exercise(name):  # TODO: two or three Exercises that differ, in place of this function
    return Exercise(
        task=f"TODO: what to do. Now: return the sum of all ranks' tensors, on every rank ({name}).",
        stub=f"""\
def {name}(mine):  # a tensor, another on each rank
    ...  # your code
""",
        solution=f"""\
def {name}(mine):
    total = mine.clone()
    dist.all_reduce(total)
    return total
""",
        why="TODO: why the solution is right.",
        hints=("TODO: where to begin.", "TODO: nearly the answer."),
        given=_tensors,
        judge=compare(
            _sums,
            Mistake("That is the rank's own tensor.", lambda arguments: [mine for (mine,) in arguments]),
        ),
        limits=(Limit("collectives", lambda arguments: 1, "TODO: why one is enough."),),
    )


LESSON = Lesson(
    "09",
    "Live with stragglers",
    predictions=(Prediction("guess_09", "TODO: its unit"),),
    exercises=(_exercise("first_09"), _exercise("second_09")),
    questions=tuple(
        Question(
            f"TODO: question {n}",
            (
                Choice("TODO: an answer", "TODO: why it is wrong."),
                Choice("TODO: another", "TODO: why it is right."),
                Choice("TODO: a third", "TODO: why it is wrong."),
            ),
            right="b",
        )
        for n in (1, 2, 3)
    ),
)
