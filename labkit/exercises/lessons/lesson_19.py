"""Lesson 19, Combine them: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import (
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    algorithm,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons.networks import normal

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

SHAPES = (2, 2), (4, 1), (1, 4)
"""Meshes of four ranks on which a check tries a function: two by two, and all ranks along one axis."""


def _between(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


@cache
def _mesh(world: dist.ProcessGroup, shape: tuple[int, int]) -> DeviceMesh:
    """Made once for a world: each has groups of its own."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor"))


def _on_each(function: Any, *arguments: Sequence) -> list:
    """What it returns for the arguments of each shape, and the mesh."""
    given = zip(*arguments, SHAPES, strict=True)
    return [function(*mine, _mesh(dist.group.WORLD, shape)) for *mine, shape in given]


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a list of gradients for each mesh."""
    shapes = (4, 3), (_between(generator, 2, 6),), (3, _between(generator, 2, 6))
    return [([[normal(generator, *s) for s in shapes] for _ in SHAPES],) for _ in range(size)]


def _synced(function: Any, arguments: tuple) -> torch.Tensor:
    """What the tensors hold that it was given, all meshes one after the other."""
    before = [tensor for gradients in arguments[0] for tensor in gradients]
    _on_each(function, arguments[0])
    return torch.cat([tensor.flatten() for tensor in before])


def _bytes_of_data(arguments: Arguments) -> float:
    """Of an all-reduce along the data axis, the mean over the meshes."""
    size = sum(g.nbytes for g in arguments[0][0][0])
    return sum(2 * size * (data - 1) / data for data, _ in SHAPES) / len(SHAPES) + 1


DATA_ONLY = "Only ranks along the data axis have the same part of the weights: send to them alone."
SYNC_ON_MESH = Exercise(
    task="`gradients` are those of a rank's own parts of the weights, for the mean loss of its own samples. "
    "Change them in place into those of the mean loss over all samples, with **one** all-reduce, along one "
    'axis. `mesh.get_group("data")` is the group of a rank\'s axis, `mesh["data"].size()` its length.',
    stub="""\
def my_sync_on_mesh(gradients, mesh):
    flat = torch.cat([g.flatten() for g in gradients])
    ...  # your code
""",
    solution=algorithm("mesh.sync_on_mesh", "my_sync_on_mesh"),
    why="A sum must have the same thing on all its ranks. Along the data axis ranks have the same part of "
    "the weights and other samples: their gradients are averaged. Along the tensor axis they have the same "
    "samples and other parts: f and g have added all there is to add.",
    hints=(
        "Which ranks have the same columns of the weights as you? Only theirs are of the same thing.",
        'All-reduce `flat` over mesh.get_group("data"), divide by the length of that axis, and copy the '
        "pieces of flat.split([g.numel() for g in gradients]) back.",
    ),
    given=_gradients,
    use=_synced,
    calls=len(SHAPES),
    answer=lambda arguments, result: result,
    judge=like_solution(1e-10),
    limits=(
        Limit("collectives", lambda arguments: 1, "One all-reduce is enough: `flat` holds all gradients."),
        Limit("sent", _bytes_of_data, DATA_ONLY),
    ),
    sizes=(4,),
    changes=("gradients",),
    becomes="sync_on_mesh",
    wrong=(
        edit(', group=mesh.get_group("data")', "", 'mesh["data"].size()', "dist.get_world_size()",
             says="That is the mean over the world: gradients of different columns were averaged together."),
        edit('get_group("data")', 'get_group("tensor")', 'mesh["data"]', 'mesh["tensor"]',
             says="That is the mean over the tensor axis, whose ranks have different columns of the same matrix."),
        edit('    flat /= mesh["data"].size()\n', "", says="These are sums over the data axis. Divide by its length."),
        edit('mesh["data"].size()', "dist.get_world_size()",
             says="The sum is over the data axis, and you divided by the number of all ranks."),
        edit('mesh["data"].size()', 'mesh["tensor"].size()',
             says="The sum is over the data axis, and you divided by the length of the other one."),
        edit("        g.copy_(mean.view_as(g))", "        pass", says="The gradients are as they were: those of the rank's own samples."),
        edit("for g, mean in zip(gradients,", "for i, (g, mean) in enumerate(zip(gradients,", "strict=True)", "strict=True))",
             "g.copy_(mean.view_as(g))", "gradients[i] = mean.view_as(g)",
             says="The gradients are as they were: those of the rank's own samples."),
        edit("g.copy_(mean.view_as(g))", "g.add_(mean.view_as(g))", says="The rank's own gradient is still in it: put the mean in its place."),
        edit('mesh["data"].size()', "2", says="wrong"),
        edit("for g in gradients])\n    dist", "for g in gradients]).float()\n    dist", says="wrong"),
        edit("    dist.all", '    if mesh.get_local_rank("data") == 0:\n        dist.all', says="deadlock: ", hangs=True),
        edit("        g.copy_(mean.view_as(g))", "        g.copy_(mean.view_as(g))\n    if dist.get_rank():\n        gradients[0] += 1",
             says="in a world of 4, ranks 1-3 are wrong"),
        body("""\
for g in gradients:
    dist.all_reduce(g, group=mesh.get_group("data"))
    g /= mesh["data"].size()""", says="One all-reduce is enough: `flat` holds all gradients."),
        edit('    dist.all_reduce(flat, group=mesh.get_group("data"))\n', """\
    every = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(every, flat)
    flat = sum(every[r] for r in dist.get_process_group_ranks(mesh.get_group("data")))
""", says=DATA_ONLY),
        body("from labkit.algorithms import sync_on_mesh\nsync_on_mesh(gradients, mesh)", says="that is what you shall write"),
    ),
)  # fmt: skip


def _parts_and_whole(generator: torch.Generator, size: int) -> Arguments:
    """Per rank, for each mesh, gradients of its parts, the same along "data", and of what all have whole."""
    given: Arguments = [([], []) for _ in range(size)]
    for _, columns in SHAPES:
        long = _between(generator, 3, 9)
        parts = [[normal(generator, 4, 3), normal(generator, 4)] for _ in range(columns)]
        whole = [normal(generator, long), normal(generator, 7)]
        for rank in range(size):
            given[rank][0].append([p.clone() for p in parts[rank % columns]])
            given[rank][1].append([w.clone() for w in whole])
    return given


def _norms(function: Any, arguments: tuple) -> Any:
    found = _on_each(function, *arguments)
    return None if any(norm is None for norm in found) else found


NORM = """\
def norm_on_mesh(parts, whole, mesh):
    square = sum(g.square().sum() for g in parts)
    dist.all_reduce(square, group=mesh.get_group("tensor"))
    square += sum(g.square().sum() for g in whole)
    return square.sqrt()
"""
TENSOR, ADD_WHOLE = ', group=mesh.get_group("tensor")', "    square += sum(g.square().sum() for g in whole)\n"
ONE_NUMBER = "One number is enough: the sum of the squares."
NORM_ON_MESH = Exercise(
    task="To clip a gradient one needs its norm. On the mesh `parts` are the gradients of this rank's parts "
    "of the matrices, and `whole` those of the biases that every rank has whole; both are averaged already. "
    "It runs without an error, and the norm is too large. **Find the bug and mend it.** Budget: one "
    "collective call, with one number.",
    stub=edited(NORM, "for g in parts)", "for g in [*parts, *whole])", ADD_WHOLE, ""),
    solution=NORM,
    why="Parts are different on each rank of the tensor axis, and together they are one gradient: their "
    "squares add up. What is whole is the same on all of them: in the sum it would count once for each "
    "rank. Nothing is added over the data axis, whose ranks are replicas.",
    hints=(
        "On two ranks along the tensor axis, how often does the gradient of a bias get into the sum?",
        "All-reduce the squares of `parts` alone, and add those of `whole` afterwards.",
    ),
    given=_parts_and_whole,
    use=_norms,
    calls=len(SHAPES),
    judge=like_solution(1e-10),
    limits=(
        Limit("collectives", lambda arguments: 1, "One sum over the ranks of an axis is enough."),
        Limit("handed", lambda arguments: 8, ONE_NUMBER),
    ),
    sizes=(4,),
    wrong=(
        edit("for g in parts)", "for g in [*parts, *whole])", ADD_WHOLE, "    square = 1 * square\n",
             says="What every rank has whole counts once for each rank of the tensor axis."),
        edit(TENSOR, "", says="You added over the whole world: replicas along the data axis are no more of the gradient."),
        edit("for g in parts)", "for g in [*parts, *whole])", ADD_WHOLE, "", TENSOR, "",
             says="You added over the whole world, and what is whole as often as there are ranks."),
        edit(ADD_WHOLE, "", says="What every rank has whole is missing."),
        edit("square.sqrt()", "square", says="The root is missing: this is the square of the norm."),
        edit('get_group("tensor")', 'get_group("data")', says="You added over the data axis, whose ranks are replicas: parts lie along the other."),
        edit(f"    dist.all_reduce(square{TENSOR})\n", "", says="This is the norm of the rank's own parts: those of the others belong to it, too."),
        edit("    dist.all_reduce", "    square = square.sqrt()\n    dist.all_reduce",
             says="Norms were added, and then squares to them. Add squares alone."),
        edit("parts)\n", "parts) + sum(g.square().sum() for g in whole) / 2\n", ADD_WHOLE, "", says="wrong"),
        edit("square.sqrt()", "square.float().sqrt()", says="wrong"),
        edit("    dist.all_reduce", "    if dist.get_rank() == 0:\n        dist.all_reduce", says="deadlock: ", hangs=True),
        edit(ADD_WHOLE, f"""\
    more = sum(g.square().sum() for g in whole)
    dist.all_reduce(more{TENSOR})
    square += more / mesh["tensor"].size()
""", says="One sum over the ranks of an axis is enough."),
        body(f"""\
squares = torch.cat([g.flatten() for g in parts]).square()
dist.all_reduce(squares{TENSOR})
return (squares.sum() + sum(g.square().sum() for g in whole)).sqrt()""", says=ONE_NUMBER),
    ),
)  # fmt: skip


def _axes(generator: torch.Generator, size: int) -> Arguments:
    """The same on every rank: two to four axes, the one inside, and a fast and a slow link."""
    names = ["data", "pipe", "tensor", "expert", "context"]
    chosen = [names[i] for i in torch.randperm(5, generator=generator)[:size].tolist()]
    axes = {name: (_between(generator, 2, 40), 1000 * _between(generator, 100, 900)) for name in chosen}
    fast = _between(generator, 5, 20) * 1e-4, _between(generator, 5, 20) * 1e-8
    slow = _between(generator, 50, 90) * 1e-4, _between(generator, 50, 90) * 1e-8
    inside = chosen[_between(generator, 0, size - 1)]
    return [(dict(axes), inside, fast, slow) for _ in range(size)]


NOBODY = "Nobody needs to be asked: all numbers are here."
ALONE = tuple(Limit(measure, lambda arguments: 0, NOBODY) for measure in ("collectives", "messages"))
LINK, COST = "fast if axis == inside else slow", "messages * alpha + size * beta"
STEP_SECONDS = Exercise(
    task="`axes` maps the name of an axis to what a rank sends along it in a step, one message after the "
    "other: (messages, bytes). The axis `inside` stays inside the hosts and has the link `fast`; all others "
    "have `slow`. A link is (seconds a message, seconds a byte). Return the seconds of all messages. Every "
    "rank has all numbers: send nothing.",
    stub="""\
def my_placement_seconds(axes, inside, fast, slow):
    ...  # your code
""",
    solution=algorithm("mesh.placement_seconds", "my_placement_seconds"),
    why="It is lesson 01's alpha and beta, once for each axis with the link that it has. What belongs inside "
    "is the axis that loses most outside: try each, and take the least.",
    hints=(
        "Each axis costs messages * alpha + bytes * beta. Which alpha and beta does it have?",
        "Go through axes.items(): (alpha, beta) is `fast` for the axis `inside`, else `slow`; add all up.",
    ),
    given=_axes,
    judge=like_solution(1e-9),
    limits=ALONE,
    becomes="placement_seconds",
    wrong=(
        edit(COST, "size * beta", says="These are the bytes alone: each message costs its latency, too."),
        edit(COST, "messages * alpha", says="These are the latencies alone: each byte takes time, too."),
        edit(LINK, "slow if axis == inside else fast", says="The axis inside has the slow link here, and the others have the fast one."),
        edit(LINK, "slow", says="All axes have the slow link here: the one inside has the fast one."),
        edit(LINK, "fast", says="All axes have the fast link here: those that leave the hosts have the slow one."),
        edit(LINK, "(0, 0) if axis == inside else slow", says="The axis inside costs nothing here: its link is fast, not free."),
        edit(LINK, "fast if axis == inside else (0, 0)", says="This is the axis inside alone: add the others."),
        edit(f"seconds += {COST}", f"seconds = max(seconds, {COST})", says="That is the slowest axis alone. They are used one after the other: add."),
        edit(COST, "messages * (alpha + size * beta)", says="`bytes` are those of all messages together: they count once."),
        edit("axis == inside", 'axis == "tensor"', says="wrong"),
        edit("axes.items()", "list(axes.items())[:2]", says="in a world of 3, "),
        edit("return seconds", "return round(seconds, 2)", says="wrong"),
        edit("    seconds = 0.0", "    dist.barrier()\n    seconds = 0.0", says=NOBODY),
        body("from labkit.algorithms import placement_seconds\nreturn placement_seconds(axes, inside, fast, slow)",
             says="that is what you shall write"),
    ),
)  # fmt: skip


def _sizes(generator: torch.Generator, size: int) -> Arguments:
    """The same on every rank: meshes, parameters, bytes of activations that stay whole, and that are cut."""
    ranks = {2: 8, 3: 12, 4: 24}[size]
    cuts = [d for d in range(1, ranks + 1) if ranks % d == 0]
    meshes = [(cuts[i], ranks // cuts[i]) for i in torch.randperm(len(cuts), generator=generator).tolist()]
    psi, whole, split = (24 * 24 * _between(generator, 100, 9_999) for _ in range(3))
    return [(list(meshes), psi, whole, split) for _ in range(size)]


ROW = "16 * psi / T + (whole + split / T) / D"
BUDGET = Exercise(
    task="Fill in the budget table. For each mesh `(D, T)` return the bytes on a device, as a list: 16 bytes "
    "for each of `psi` parameters, cut into T parts; of the activations of the whole batch `whole` bytes "
    "belong to samples and stay whole along the tensor axis, and `split` bytes are cut along both axes. "
    "Every rank has all numbers: send nothing.",
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
    judge=like_solution(1e-9),
    limits=ALONE,
    becomes="budget",
    wrong=(
        edit("psi / T", "psi / T / D", says="Data parallelism does not cut the state: each data rank has its part of the weights once more."),
        edit("for D, T in", "for T, D in", says="D and T are swapped."),
        edit("(whole + split / T)", "(whole + split) / T", says="What stays whole along the tensor axis is not divided by T."),
        edit("(whole + split / T) / D", "whole + split / T",
             says="A data rank has the activations of its own samples alone: divide them by D."),
        edit("split / T", "split", says="`split` is cut along the tensor axis, too: divide it by T."),
        edit("16 * psi / T + ", "", says="The state is missing: 16 bytes a parameter."),
        edit(" + (whole + split / T) / D", "", says="The activations are missing."),
        edit("16 * psi / T", "16 * psi", says="The state is cut along the tensor axis: divide it by T."),
        edit("in meshes", "in meshes[:4]", says="wrong"),
        edit("in meshes", "in [(8, 1), (4, 2), (2, 4), (1, 8)]", says="wrong"),
        edit("in meshes", "in sorted(meshes)", says="The rows stand in another order than `meshes`."),
        body(f"return {{(D, T): {ROW} for D, T in meshes}}", says="wrong"),
        edit("16 * psi", "8 * psi", says="wrong"),
        edit("    return", "    dist.barrier()\n    return", says=NOBODY),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="19",
    title="Combine them: data and model parallelism on a mesh",
    predictions=(Prediction("tensor_over_data", "times"),),
    exercises=(SYNC_ON_MESH, STEP_SECONDS, NORM_ON_MESH, BUDGET),
    questions=questions("19"),
)
