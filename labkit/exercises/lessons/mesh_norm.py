"""The norm of a gradient on a mesh, in which some of it counts several times: a find-the-bug of lesson 19."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.meshes import RANKS, SHAPES, along, on_each
from labkit.exercises.lessons.networks import normal

Squares: TypeAlias = "list[torch.Tensor]"
"""Of the ranks' own parts."""


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """Per rank, for each mesh, gradients of its parts, the same along "data", and of what all have whole."""
    given: Arguments = [([], [], SHAPES) for _ in range(size)]
    for _, columns in SHAPES:
        parts = [[normal(generator, 4, 3), normal(generator, 4)] for _ in range(columns)]
        whole = [normal(generator, 5), normal(generator, 7)]
        for rank in range(size):
            given[rank][0].append([p.clone() for p in parts[rank % columns]])
            given[rank][1].append([w.clone() for w in whole])
    return given


def _square(gradients: list) -> torch.Tensor:
    return sum(g.square().sum() for g in gradients)


def _norms(of: Callable[[Squares, torch.Tensor, list[int], tuple[int, int]], torch.Tensor]) -> Values:
    """For each rank what is made of the squares of parts, of what is whole, of its axis and of the shape."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        found = []
        for rank in range(len(arguments)):
            norms = []
            for place, shape in enumerate(SHAPES):
                parts = [_square(given[0][place]) for given in arguments]
                axis = along("tensor", rank, shape)
                norms.append(of([parts[r] for r in axis], _square(arguments[rank][1][place]), axis, shape))
            found.append(torch.stack(norms))
        return found

    return values


def _use(function: Any, arguments: tuple) -> list | None:
    return on_each(function, *arguments[:2])


NORM_ON_MESH = Exercise(
    task="To clip a gradient one needs its norm. On the mesh `parts` are the gradients of this rank's parts "
    "of the matrices, and `whole` those of the biases that every rank has whole; both are averaged already. "
    "It runs without an error, and the norm is too large. **Find the bug and mend it.**",
    stub="""\
def norm_on_mesh(parts, whole, mesh):
    square = sum(g.square().sum() for g in [*parts, *whole])
    dist.all_reduce(square, group=mesh.get_group("tensor"))
    return square.sqrt()
""",
    solution="""\
def norm_on_mesh(parts, whole, mesh):
    square = sum(g.square().sum() for g in parts)
    dist.all_reduce(square, group=mesh.get_group("tensor"))
    square += sum(g.square().sum() for g in whole)
    return square.sqrt()
""",
    why="Parts are different on each rank of the tensor axis, and together they are one gradient: their "
    "squares add up. What is whole is the same on all of them: in the sum it would count once for each "
    "rank. Nothing is added over the data axis, whose ranks are replicas.",
    hints=(
        "On two ranks along the tensor axis, how often does the gradient of a bias get into the sum?",
        "All-reduce the squares of `parts` alone, and add those of `whole` afterwards.",
    ),
    given=_gradients,
    judge=compare(
        _norms(lambda parts, whole, axis, shape: (sum(parts) + whole).sqrt()),
        Mistake(
            "What every rank has whole counts once for each rank of the tensor axis.",
            _norms(lambda parts, whole, axis, shape: (sum(parts) + whole * len(axis)).sqrt()),
        ),
        Mistake(
            "You added over the whole world: replicas along the data axis are no more of the gradient.",
            _norms(lambda parts, whole, axis, shape: (sum(parts) * shape[0] + whole).sqrt()),
        ),
        Mistake(
            "You added over the whole world, and what is whole as often as there are ranks.",
            _norms(lambda parts, whole, axis, shape: (sum(parts) * shape[0] + whole * RANKS).sqrt()),
        ),
        Mistake(
            "What every rank has whole is missing.",
            _norms(lambda parts, whole, axis, shape: sum(parts).sqrt()),
        ),
        Mistake(
            "The root is missing: this is the square of the norm.",
            _norms(lambda parts, whole, axis, shape: sum(parts) + whole),
        ),
        tolerance=1e-10,
    ),
    limits=(
        Limit("collectives", lambda arguments: len(SHAPES), "One sum for each mesh that was tried."),
        Limit("handed", lambda arguments: 8 * len(SHAPES), "One number is enough: the sum of the squares."),
    ),
    sizes=(RANKS,),
    use=_use,
)
