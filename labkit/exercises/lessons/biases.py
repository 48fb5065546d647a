"""A layer cut by rows whose bias is added on every rank: the find-the-bug of lesson 16."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.operators import COLUMNS, ROWS


def _layer(generator: torch.Generator, size: int) -> Arguments:
    """Per rank its columns of the input and its rows of the weights; the whole bias, the same on all."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    bias = draw(COLUMNS)
    return [(draw(ROWS, 2), draw(2, COLUMNS), bias.clone()) for _ in range(size)]


def _output(biases: float = 1, per_rank: bool = False) -> Values:
    def output(arguments: Arguments) -> torch.Tensor:
        products = sum(x @ weight for x, weight, _ in arguments)
        return products + arguments[0][2] * biases * (len(arguments) if per_rank else 1)

    return everywhere(output)


ROW_PARALLEL = Exercise(
    task="A layer that is cut by rows: this rank has its columns of the input, its rows of the weights, and "
    "the bias of the whole layer. It gives the right output on one rank, and on more ranks a wrong one. "
    "**Find the bug and mend it.**",
    stub="""\
def row_parallel(x, weight, bias):
    part = x @ weight + bias
    dist.all_reduce(part)
    return part
""",
    solution="""\
def row_parallel(x, weight, bias):
    part = x @ weight
    dist.all_reduce(part)
    return part + bias
""",
    why="Each rank added the whole bias to its partial sum, so the output has it R times. What belongs to "
    "the output, and not to a part, comes after the sum. (The output is also right if each rank adds bias / "
    "R, or one rank adds all of it, before the sum. But then the gradient of the bias is 1/R of what it "
    "should be, or only that one rank has it.)",
    hints=(
        "Write the sum over ranks that this computes. How often is each term in it?",
        "The bias must be added once: after the all-reduce.",
    ),
    given=_layer,
    judge=compare(
        _output(),
        Mistake(
            "The bias is in there once for each rank. Add it once: after the sum.", _output(per_rank=True)
        ),
        Mistake("The bias is missing.", _output(biases=0)),
        Mistake(
            "This is the mean of the partial sums: their sum is the output. Divide by nothing.",
            lambda arguments: [
                sum(x @ weight for x, weight, _ in arguments) / len(arguments) + bias
                for _, _, bias in arguments
            ],
        ),
        Mistake(
            "That is the rank's own partial sum: nothing has come from the others.",
            lambda arguments: [x @ weight + bias for x, weight, bias in arguments],
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "One sum over the ranks is enough."),),
)
