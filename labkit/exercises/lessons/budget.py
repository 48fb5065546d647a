"""What a device must hold on each mesh: the budget table of lesson 19, which the learner fills in."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

STATE = 16
"""Bytes a parameter."""
MESHES = (8, 1), (4, 2), (2, 4), (1, 8)


def _sizes(generator: torch.Generator, size: int) -> Arguments:
    """The same on every rank: meshes, parameters, bytes of activations that stay whole, and that are cut."""
    psi, whole, split = (1000 * int(torch.randint(1, 100, (), generator=generator)) for _ in range(3))
    return [(list(MESHES), psi, 8 * whole, 8 * split) for _ in range(size)]


def _table(row: Callable[[int, int, int, int, int], float]) -> Values:
    def values(arguments: Arguments) -> torch.Tensor:
        meshes, *sizes = arguments[0]
        return torch.tensor([row(D, T, *sizes) for D, T in meshes], dtype=torch.float64)

    return everywhere(values)


BUDGET = Exercise(
    task="Fill in the budget table. For each mesh `(D, T)` return the bytes on a device, as a list: 16 bytes "
    "for each of `psi` parameters, cut into T parts; of the activations of the whole batch `whole` bytes "
    "belong to samples and stay whole along the tensor axis, and `split` bytes are cut along both axes.",
    stub="""\
def my_budget(meshes, psi, whole, split):
    ...  # your code
""",
    solution="""\
def my_budget(meshes, psi, whole, split):
    return [16 * psi / T + (whole + split / T) / D for D, T in meshes]
""",
    why="The tensor axis cuts weights, all that belongs to them, and what a layer makes inside; the data "
    "axis cuts samples, and so all activations. Neither cuts everything: that is why both may be needed.",
    hints=(
        "Which of the three, state, whole and split, gets smaller with more ranks along data? Along tensor?",
        "A row is 16 * psi / T + (whole + split / T) / D.",
    ),
    given=_sizes,
    judge=compare(
        _table(lambda D, T, psi, whole, split: STATE * psi / T + (whole + split / T) / D),
        Mistake(
            "Data parallelism does not cut the state: each data rank has its part of the weights once more.",
            _table(lambda D, T, psi, whole, split: STATE * psi / T / D + (whole + split / T) / D),
        ),
        Mistake(
            "D and T are swapped.",
            _table(lambda D, T, psi, whole, split: STATE * psi / D + (whole + split / D) / T),
        ),
        Mistake(
            "What stays whole along the tensor axis is not divided by T.",
            _table(lambda D, T, psi, whole, split: STATE * psi / T + (whole + split) / D / T),
        ),
        Mistake(
            "A data rank has the activations of its own samples alone: divide them by D.",
            _table(lambda D, T, psi, whole, split: STATE * psi / T + whole + split / T),
        ),
        Mistake(
            "The state is missing: 16 bytes a parameter.",
            _table(lambda D, T, psi, whole, split: (whole + split / T) / D),
        ),
        Mistake("The activations are missing.", _table(lambda D, T, psi, whole, split: STATE * psi / T)),
        tolerance=1e-9,
    ),
    limits=(Limit("collectives", lambda arguments: 0, "Nobody needs to be asked: all numbers are here."),),
    becomes="budget",
)
