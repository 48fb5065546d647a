"""Gradients on a mesh, and which axis they are averaged over: a heart of lesson 19."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.meshes import RANKS, SHAPES, along, on_each
from labkit.exercises.lessons.networks import normal

SIZES = (4, 3), (4,), (3, 5)
"""Of a rank's gradients, the same on all."""
Shape = tuple[int, int]


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a list of gradients for each mesh, and the meshes' shapes."""
    return [([[normal(generator, *s) for s in SIZES] for _ in SHAPES], SHAPES) for _ in range(size)]


def _flat(gradients: list) -> torch.Tensor:
    return torch.cat([g.flatten() for g in gradients])


def _sums(over: Callable[[int, Shape], list[int]], divisor: Callable[[Shape], float]) -> Values:
    """For each rank the sums over those ranks, divided, of all meshes one after the other."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        def mean(place: int, rank: int) -> torch.Tensor:
            ranks, shape = over(rank, SHAPES[place]), SHAPES[place]
            return sum(_flat(arguments[r][0][place]) for r in ranks) / divisor(shape)

        return [torch.cat([mean(p, rank) for p in range(len(SHAPES))]) for rank in range(len(arguments))]

    return values


def _data(rank: int, shape: Shape) -> list[int]:
    return along("data", rank, shape)


def _tensor(rank: int, shape: Shape) -> list[int]:
    return along("tensor", rank, shape)


def _all(rank: int, shape: Shape) -> list[int]:
    return list(range(RANKS))


def _own(rank: int, shape: Shape) -> list[int]:
    return [rank]


def _use(function: Any, arguments: tuple) -> None:
    on_each(function, arguments[0])


SYNC_ON_MESH = Exercise(
    task="`gradients` are those of a rank's own parts of the weights, for the mean loss of its own samples. "
    "Change them in place into those of the mean loss over all samples, with **one** all-reduce. "
    '`mesh.get_group("data")` is the group of a rank\'s axis, `mesh["data"].size()` its length.',
    stub="""\
def my_sync_on_mesh(gradients, mesh):
    flat = torch.cat([g.flatten() for g in gradients])
    ...  # your code
""",
    solution="""\
def my_sync_on_mesh(gradients, mesh):
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat, group=mesh.get_group("data"))
    flat /= mesh["data"].size()
    for g, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        g.copy_(mean.view_as(g))
""",
    why="A sum must have the same thing on all its ranks. Along the data axis ranks have the same part of "
    "the weights and other samples: their gradients are averaged. Along the tensor axis they have the same "
    "samples and other parts: f and g have added all there is to add.",
    hints=(
        "Which ranks have the same columns of the weights as you? Only theirs are of the same thing.",
        'All-reduce `flat` over mesh.get_group("data"), divide by the length of that axis, and copy the '
        "pieces of flat.split([g.numel() for g in gradients]) back.",
    ),
    given=_gradients,
    answer=lambda arguments, result: torch.cat([_flat(gradients) for gradients in arguments[0]]),
    judge=compare(
        _sums(_data, lambda shape: shape[0]),
        Mistake(
            "That is the mean over the world: gradients of different columns were averaged together.",
            _sums(_all, lambda shape: RANKS),
        ),
        Mistake(
            "That is the mean over the tensor axis, whose ranks have different columns of the same matrix.",
            _sums(_tensor, lambda shape: shape[1]),
        ),
        Mistake("These are sums over the data axis. Divide by its length.", _sums(_data, lambda shape: 1)),
        Mistake(
            "The sum is over the data axis, and you divided by the number of all ranks.",
            _sums(_data, lambda shape: RANKS),
        ),
        Mistake(
            "The gradients are as they were: those of the rank's own samples.", _sums(_own, lambda shape: 1)
        ),
        tolerance=1e-10,
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: len(SHAPES),
            "One all-reduce for each mesh that was tried: `flat` holds all gradients.",
        ),
    ),
    sizes=(RANKS,),
    changes=("gradients",),
    use=_use,
    becomes="sync_on_mesh",
)
