"""The gradient noise scale, from the gradients that the ranks have anyway: the heart of lesson 12."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

SIZE = 12


def _given(generator: torch.Generator, size: int) -> Arguments:
    """Gradients that have something in common; samples are more than ranks, so no factor is another."""
    samples = int(torch.randint(5, 10, (), generator=generator))
    common = 2 + torch.rand(SIZE, generator=generator)
    return [(common + torch.randn(SIZE, generator=generator), samples) for _ in range(size)]


def _squares(arguments: Arguments) -> tuple[float, float, int, int]:
    """The mean of the ranks' squares, the square of their mean, the samples of a rank, the ranks."""
    gradients = torch.stack([gradient for gradient, _ in arguments]).double()
    own, mean = gradients.square().sum(1).mean(), gradients.mean(0).square().sum()
    return own.item(), mean.item(), arguments[0][1], len(arguments)


def _both(own: float, mean: float, samples: int, size: int) -> list[float]:
    return [(own - mean) * samples * size / (size - 1), (size * mean - own) / (size - 1)]


def _wrong(of: Callable[[float, float, int, int], object]) -> Values:
    return everywhere(lambda arguments: of(*_squares(arguments)))


def _own(arguments: Arguments) -> list[list[float]]:
    """Each rank with the square of its own gradient only."""
    _, mean, samples, size = _squares(arguments)
    return [_both(g.double().square().sum().item(), mean, samples, size) for g, _ in arguments]


NOISE = Exercise(
    task="Each rank has the `gradient` of `samples` samples of its own, a vector. Return two numbers, the "
    "same on every rank: what these gradients say of `tr(Sigma)`, and what they say of `|G|^2`, both "
    "unbiased. At most two collective calls.",
    stub="""\
def my_noise_and_signal(gradient, samples):
    ...  # your code
""",
    solution="""\
def my_noise_and_signal(gradient, samples):
    R, mean = dist.get_world_size(), gradient.clone()
    dist.all_reduce(mean)
    mean /= R
    own = gradient.square().sum()
    dist.all_reduce(own)
    s, m = own.item() / R, mean.square().sum().item()
    return (s - m) * samples * R / (R - 1), (R * m - s) / (R - 1)
""",
    why="A rank's gradient has the noise of b samples, their mean that of R b. Two equations, two unknowns: "
    "what data parallelism computes anyway tells how large a batch is worth while.",
    hints=(
        "Solve the two equations for tr(Sigma) and |G|^2 on paper: subtract them, and R times the second "
        "minus the first.",
        "One all_reduce for the mean gradient. Another, of one number, for the mean of the ranks' "
        "gradient.square().sum().",
    ),
    given=_given,
    judge=compare(
        _wrong(_both),
        Mistake(
            "Each rank used the square of its own gradient: take the mean of the squares over all ranks.",
            _own,
        ),
        Mistake(
            "The sum of the gradients is not their mean: divide it by the number of ranks.",
            _wrong(lambda s, m, b, R: _both(s, m * R * R, b, R)),
        ),
        Mistake(
            "The sum of the squares is not their mean: divide it by the number of ranks.",
            _wrong(lambda s, m, b, R: _both(s * R, m, b, R)),
        ),
        Mistake(
            "The square of the mean gradient is taken for |G|^2: it still has tr(Sigma) / (R b) in it.",
            _wrong(lambda s, m, b, R: [b * (s - m), m]),
        ),
        Mistake(
            "tr(Sigma) is right. The square of the mean gradient still has tr(Sigma) / (R b) in it: "
            "subtract that.",
            _wrong(lambda s, m, b, R: [_both(s, m, b, R)[0], m]),
        ),
        Mistake(
            "This is the noise of a rank's mean over its samples. That of one sample is `samples` times as "
            "large.",
            _wrong(lambda s, m, b, R: _both(s, m, 1, R)),
        ),
        Mistake(
            "The right numbers in the wrong order: first tr(Sigma), then |G|^2.",
            _wrong(lambda s, m, b, R: _both(s, m, b, R)[::-1]),
        ),
        Mistake(
            "This is their ratio. Return both: the ratio of two means over many draws is what is meant, and "
            "the mean of ratios is another number.",
            _wrong(lambda s, m, b, R: _both(s, m, b, R)[0] / _both(s, m, b, R)[1]),
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 2, "One for the mean gradient, one for a number."),),
    becomes="noise_and_signal",
)
