"""Lesson 16, Cut inside a layer: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, questions
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.biases import ROW_PARALLEL
from labkit.exercises.lessons.operators import COPY_TO_RANKS, SUM_OVER_RANKS
from labkit.exercises.lessons.split_loss import SPLIT_CROSS_ENTROPY

HEADS, WIDTH = 12, 24
"""2, 3 and 4 ranks have as many heads each."""


def _fused(generator: torch.Generator, size: int) -> Arguments:
    weight = torch.randn(3 * WIDTH, WIDTH, generator=generator)
    return [(weight, HEADS)] * size


def _heads(arguments: Arguments) -> list[torch.Tensor]:
    """Per rank the rows of its heads: those of q, of k and of v."""
    size, (weight, heads) = len(arguments), arguments[0]
    by_head = weight.view(3, heads, -1, weight.shape[1])
    return [part.flatten(0, 2) for part in by_head.tensor_split(size, 1)]


def _chunks(arguments: Arguments) -> list[torch.Tensor]:
    return list(arguments[0][0].tensor_split(len(arguments)))


def _interleaved(arguments: Arguments) -> list[torch.Tensor]:
    """As if each head's q, k and v stood together."""
    size, (weight, heads) = len(arguments), arguments[0]
    by_head = weight.view(3, heads, -1, weight.shape[1]).transpose(0, 1)
    return [part.flatten(0, 2) for part in by_head.tensor_split(size)]


MY_HEADS = Exercise(
    task="Many models keep `q`, `k` and `v` in one fused matrix. `weight` has the rows of `q`, head after "
    "head, then those of `k`, then those of `v`: three times `heads` times the size of a head. Each rank "
    "takes `heads / world_size` consecutive heads. Return its rows: of `q`, then of `k`, then of `v`.",
    stub="""\
def my_heads(weight, heads):
    ...  # your code
""",
    solution="""\
def my_heads(weight, heads):
    by_head = weight.view(3, heads, -1, weight.shape[1])
    return by_head.chunk(world_size, 1)[rank].flatten(0, 2)
""",
    why="A head needs its q, k and v on one rank. Cutting the fused matrix as it stands gives rank 0 all of "
    "q and no v: the shapes fit, and attention is nonsense.",
    hints=(
        "weight.view(3, heads, head_size, width): now each dimension has a meaning. Which one is cut?",
        "Cut dimension 1, take part `rank`, and flatten(0, 2) makes rows of it again.",
    ),
    given=_fused,
    judge=compare(
        _heads,
        Mistake(
            "This cuts the fused matrix as it stands: the first rank has q alone, the last one v alone.",
            _chunks,
        ),
        Mistake(
            "These are the right heads in another order: q of all your heads first, then k, then v.",
            _interleaved,
        ),
        Mistake("These are the heads of rank 0.", everywhere(lambda arguments: _heads(arguments)[0])),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "The whole matrix is there: take your part of it."),
        Limit("messages", lambda arguments: 0, "The whole matrix is there: take your part of it."),
    ),
)


LESSON = Lesson(
    number="16",
    title="Cut inside a layer: tensor parallelism",
    predictions=(Prediction("block_all_reduces", "all-reduces"),),
    exercises=(COPY_TO_RANKS, SUM_OVER_RANKS, ROW_PARALLEL, MY_HEADS, SPLIT_CROSS_ENTROPY),
    questions=questions("16"),
)
