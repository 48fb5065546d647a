"""Cross entropy over classes that are split over the ranks: an exercise of lesson 16."""

from __future__ import annotations

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare, everywhere, numbers
from labkit.exercises.lazy_torch import torch

SAMPLES, CLASSES = 40, 96
HIGH = 1000.0
"""Added to all scores: their exponentials are beyond float32, and float64, too."""


def _scores(generator: torch.Generator, size: int) -> Arguments:
    scores = HIGH + 3 * torch.randn(SAMPLES, CLASSES, generator=generator)
    target = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    return [(part.contiguous(), target) for part in scores.chunk(size, 1)]


def _loss(arguments: Arguments) -> torch.Tensor:
    scores = torch.cat([part for part, _ in arguments], 1).double()
    return torch.nn.functional.cross_entropy(scores, arguments[0][1])


def _target_scores(arguments: Arguments) -> torch.Tensor:
    scores = torch.cat([part for part, _ in arguments], 1).double()
    return scores.gather(1, arguments[0][1][:, None]).squeeze(1)


def _own_classes_only(arguments: Arguments) -> list[torch.Tensor]:
    """Each rank's exponentials are summed on that rank alone."""
    target = _target_scores(arguments)
    return [(part.double().logsumexp(1) - target).mean() for part, _ in arguments]


def _own_largest(arguments: Arguments) -> list[torch.Tensor]:
    """Each rank subtracts its own largest score, and the sums are added as if it were one."""
    largest = [part.double().amax(1, keepdim=True) for part, _ in arguments]
    total = sum((part - m).exp().sum(1) for (part, _), m in zip(arguments, largest, strict=True))
    target = _target_scores(arguments)
    return [(total.log() + m.squeeze(1) - target).mean() for m in largest]


def _judged(answers: Answers) -> str:
    for rank, found in enumerate(answers.found):
        value = numbers(found)
        if value is not None and not torch.isfinite(value).all():
            return (
                f"rank {rank} got {value.flatten()[0].item()}\nexp(1000) is beyond any float. Subtract the "
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
    )(answers)


SPLIT_CROSS_ENTROPY = Exercise(
    task="The last layer is split, too: rank $r$ has the `scores` of its classes, `[samples, classes / "
    "world_size]`; class numbers go on from rank to rank. `target` has the right class of each sample, on "
    "every rank. Return the mean cross entropy on every rank, as a number (nothing is differentiated), "
    "without gathering the scores: three all-reduces of one number per sample suffice.",
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
    "three numbers for each token in place of 50,000. Backward it needs no message: the gradient of a score "
    "is its share of the sum, exp(s - m) / sum, minus 1 for the target, over the number of samples; a rank "
    "has all of that for its own classes. (backward() would not find it by itself: dist.all_reduce has no "
    "derivative.)",
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
            lambda arguments: 4 * SAMPLES * CLASSES * 3 // 2,
            "That is more than all scores at once: do not gather them.",
        ),
    ),
)
