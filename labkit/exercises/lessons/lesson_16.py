"""Lesson 16, Cut inside a layer: its prediction, exercises and questions."""

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
from labkit.exercises.judge import Mistake, compare, everywhere, numbers
from labkit.exercises.lazy_torch import torch

HEADS, WIDTH = 12, 24
"""2, 3 and 4 ranks have as many heads each."""
SAMPLES, CLASSES = 40, 96
HIGH = 1000.0
"""Added to all scores: their exponentials are beyond float64."""


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


def _scores(generator: torch.Generator, size: int) -> Arguments:
    scores = HIGH + 3 * torch.randn(SAMPLES, CLASSES, generator=generator, dtype=torch.float64)
    target = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    return [(part.contiguous(), target) for part in scores.chunk(size, 1)]


def _loss(arguments: Arguments) -> torch.Tensor:
    scores = torch.cat([part for part, _ in arguments], 1)
    return torch.nn.functional.cross_entropy(scores, arguments[0][1])


def _target_scores(arguments: Arguments) -> torch.Tensor:
    scores = torch.cat([part for part, _ in arguments], 1)
    return scores.gather(1, arguments[0][1][:, None]).squeeze(1)


def _own_classes_only(arguments: Arguments) -> list[torch.Tensor]:
    """Each rank's exponentials are summed on that rank alone."""
    target = _target_scores(arguments)
    return [(part.logsumexp(1) - target).mean() for part, _ in arguments]


def _own_largest(arguments: Arguments) -> list[torch.Tensor]:
    """Each rank subtracts its own largest score, and the sums are added as if it were one."""
    largest = [part.amax(1, keepdim=True) for part, _ in arguments]
    total = sum((part - m).exp().sum(1) for (part, _), m in zip(arguments, largest, strict=True))
    target = _target_scores(arguments)
    return [(total.log() + m.squeeze(1) - target).mean() for m in largest]


def _judged(answers: Answers) -> str:
    for rank, found in enumerate(answers.found):
        value = numbers(found)
        if value is not None and not torch.isfinite(value).all():
            return (
                f"rank {rank} got {value.flatten()[0].item()}\nexp(1000) is beyond float64. Subtract the "
                "largest score of all ranks first: the loss does not change."
            )
    return compare(
        everywhere(_loss),
        Mistake(
            "This is the sum over the samples. Return their mean.", everywhere(lambda a: SAMPLES * _loss(a))
        ),
        Mistake("Each rank added up its own exponentials only.", _own_classes_only),
        Mistake(
            "Each rank subtracted its own largest score. It must be the same on all: ReduceOp.MAX.",
            _own_largest,
        ),
        tolerance=1e-9,
    )(answers)


SPLIT_CROSS_ENTROPY = Exercise(
    task="The last layer is split, too: rank $r$ has the `scores` of its classes, `[samples, classes / "
    "world_size]`; class numbers go on from rank to rank. `target` has the right class of each sample, on "
    "every rank. Return the mean cross entropy on every rank, without gathering the scores: three "
    "all-reduces of one number per sample suffice.",
    stub="""\
def split_cross_entropy(scores, target):
    ...  # your code
""",
    solution="""\
def split_cross_entropy(scores, target):
    largest = scores.amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    total = (scores - largest[:, None]).exp_().sum(1)
    dist.all_reduce(total)
    here = target - rank * scores.shape[1]
    mine = (here >= 0) & (here < scores.shape[1])
    wanted = torch.zeros_like(total)
    wanted[mine] = scores[mine, here[mine]]
    dist.all_reduce(wanted)
    return (total.log() + largest - wanted).mean()
""",
    why="The loss of a sample is log(sum of exp(s - m)) + m - s[target]. Maximum, sum and the one score are "
    "each a reduction over classes, so over ranks, and a language model with a vocabulary of 50,000 sends "
    "three numbers for each token in place of 50,000.",
    hints=(
        "The loss of a sample is log(sum over classes of exp(s - m)) + m - s[target], for any m. Take the "
        "largest score of all ranks for m.",
        "target - rank * scores.shape[1] is the place among the rank's own classes. Only one rank has "
        "it; the others add 0.",
    ),
    given=_scores,
    judge=_judged,
    limits=(
        Limit("collectives", lambda arguments: 3, "A maximum, a sum, and the score of the target."),
        Limit(
            "memory",
            lambda arguments: 8 * SAMPLES * CLASSES * 3 // 2,
            "That is more than all scores at once: do not gather them.",
        ),
    ),
)

LESSON = Lesson(
    number="16",
    title="Cut inside a layer: tensor parallelism",
    predictions=(Prediction("block_all_reduces", "all-reduces"),),
    exercises=(MY_HEADS, SPLIT_CROSS_ENTROPY),
    questions=(
        Question(
            "The first layer is cut by columns, then comes an activation, then a layer that is cut by rows. "
            "Where must the ranks talk in forward?",
            (
                Choice("after the first layer", "Each rank has just the columns that its rows need."),
                Choice("after the second layer", "Each rank has a summand of the whole output."),
                Choice("after both", "The activation takes each column alone, so the first needs no one."),
            ),
            right="b",
        ),
        Question(
            "What goes wrong without the all-reduce in backward?",
            (
                Choice("the loss", "Forward is the same, to the last bit."),
                Choice("the gradients of the split layers", "They need no other rank's numbers."),
                Choice(
                    "all that is before the block", "It gets a summand of its gradient, another on each rank."
                ),
            ),
            right="c",
        ),
        Question(
            "A model gets twice as many blocks of the same width, on the same four ranks. What doubles?",
            (
                Choice("memory per rank and all-reduces", "Each block has its parts and its four sums."),
                Choice("memory per rank alone", "Each block has four all-reduces of its own."),
                Choice("the bytes of each all-reduce", "They depend on samples and width alone."),
            ),
            right="a",
        ),
    ),
)
