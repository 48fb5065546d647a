"""Lesson 16, Cut inside a layer: its prediction, exercises and questions."""

from __future__ import annotations

from typing import Any

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
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import normal


def _between(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _tensors(generator: torch.Generator, size: int, same: bool) -> Arguments:
    """What goes in forward, and the gradient that comes backward; `same`: forward equal on all ranks."""
    shape = _between(generator, 2, 6), _between(generator, 2, 6)
    equal, grad = normal(generator, *shape), normal(generator, *shape)
    return [
        (equal.clone(), normal(generator, *shape)) if same else (normal(generator, *shape), grad.clone())
        for _ in range(size)
    ]


def _there_and_back(operator: Any, arguments: tuple) -> torch.Tensor:
    """What it gives forward, and below that what backward makes of the gradient.

    Forward it gets what an operation gave, as inside a network; if it writes into that, the argument tells.
    """
    tensor, grad = arguments
    leaf = tensor.clone().requires_grad_()
    given = leaf * 1
    out = operator.apply(given)
    result = out.detach().clone()
    out.backward(grad)
    tensor.copy_(given.detach())
    return torch.cat([result, torch.zeros_like(leaf) if leaf.grad is None else leaf.grad])


DEADLOCK = "dist.get_rank() or dist.all_reduce(total)"
COPY_TO_RANKS = Exercise(
    task="**f** stands where a split block begins. Forward it hands on `x`, which is the same on every rank. "
    "Backward each rank has a gradient of its own part of the block: return their sum, and leave `grad` as "
    "it is. Budget: no collective call in forward, one in backward.",
    stub="""\
class MyCopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ...  # your code: the gradient of x
""",
    solution=algorithm("tensor_parallel.CopyToRanks", "MyCopyToRanks"),
    why="x goes into every rank's part, so the gradient of x is the sum over the parts. `grad` belongs to "
    "autograd, which may use it elsewhere: sum into a copy.",
    hints=(
        "One x, R parts that use it. What is the derivative of a sum of R functions?",
        "Clone grad, all_reduce the copy, return it.",
    ),
    given=lambda generator, size: _tensors(generator, size, same=True),
    use=_there_and_back,
    judge=like_solution(1e-9),
    limits=(Limit("collectives", lambda arguments: 1, "Forward needs none, backward one."),),
    wrong=(
        edit("return total", "return 1 * grad",
             says="Backward hands on the rank's own gradient: that of one part. Add up those of all."),
        edit("return total", "return total / dist.get_world_size()",
             says="Backward gives the mean. Nothing is averaged here: x is in every part."),
        edit("return total", "return None",
             says="Forward is right, but backward returns no gradient: x and all that is before it learns nothing."),
        edit("return x.view_as(x)", "every = x.clone()\n        dist.all_reduce(every)\n        return every",
             says="Forward adds up. x is the same everywhere already: hand it on."),
        edit("total = grad.clone()", "total = grad", says="rank 0 changed `grad`, which its caller goes on using"),
        edit("return x.view_as(x)", "return x.mul_(1.5).div(1.5)",
             says="rank 0 changed `x`, which its caller goes on using"),
        edit("dist.all_reduce(total)", "dist.reduce(total, 0)", says="rank 1 is wrong"),
        edit("dist.all_reduce(total)", "dist.all_reduce(total, async_op=True)",
             says="never waits for its asynchronous all_reduce", hangs=True),  # what it gives depends on chance
        edit("dist.all_reduce(total)", DEADLOCK, says="deadlock: ", hangs=True),
        edit("return x.view_as(x)", "mean = x / dist.get_world_size()\n        dist.all_reduce(mean)\n        return mean",
             says="Forward needs none, backward one."),
        edit("return x.view_as(x)", "dist.broadcast(x := x.clone(), 0)\n        return x",
             says="Forward needs none, backward one."),
        edit("all_reduce(total)", "broadcast(total, 0)", says="This is the gradient of rank 0's part alone."),
        edit("grad.clone()", "grad.float()", says="wrong"),
        edit("return total", "return total * 2 / dist.get_world_size()", says="in a world of 3, "),
        edit("return total", "return total + grad", says="The rank's own gradient counts twice."),
        edit("all_reduce(total)", "all_reduce(total[:1])", says="Only a part of the gradient is summed."),
        edit("all_reduce(total)", "all_reduce(total, op=dist.ReduceOp.MAX)",
             says="This is the largest of the gradients in each place. Add them up."),
        body("""\
@staticmethod
def forward(ctx, x):
    from labkit.algorithms import CopyToRanks
    return CopyToRanks.forward(ctx, x)

@staticmethod
def backward(ctx, grad):
    from labkit.algorithms import CopyToRanks
    return CopyToRanks.backward(ctx, grad)""", says="that is what you shall write"),
    ),
    becomes="CopyToRanks",
)  # fmt: skip

SUM_OVER_RANKS = Exercise(
    task="**g** stands where a split block ends. Forward each rank has a **partial sum** of the output: "
    "return the sum of these parts on every rank, and leave `part` as it is. Backward the gradient of the "
    "output is the same on every rank: hand it on. Budget: one collective call in forward, none in "
    "backward.",
    stub="""\
class MySumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        ...  # your code: the output

    @staticmethod
    def backward(ctx, grad):
        ...  # your code: the gradient of part
""",
    solution=algorithm("tensor_parallel.SumOverRanks", "MySumOverRanks"),
    why="The output is part_0 + part_1 + ..., so its derivative by each part is 1. All ranks go on with the "
    "same output and come back with the same gradient: to add those up would count it R times.",
    hints=(
        "It mirrors f: what f does backward, g does forward, and the other way round.",
        "Forward: clone, all_reduce, return. Backward: return grad.",
    ),
    given=lambda generator, size: _tensors(generator, size, same=False),
    use=_there_and_back,
    judge=like_solution(1e-9),
    limits=(Limit("collectives", lambda arguments: 1, "Forward needs one, backward none."),),
    wrong=(
        edit("return total", "return part.clone()",
             says="Forward hands on the rank's own partial sum. Add up those of all."),
        edit("return total", "return total / dist.get_world_size()",
             says="Forward gives the mean. The output is the sum of the parts."),
        edit("return grad", "total = grad.clone()\n        dist.all_reduce(total)\n        return total",
             says="Backward adds up equal gradients: they come out R times too large. Hand on `grad`."),
        edit("return grad", "return grad / dist.get_world_size()",
             says="Forward is right, but backward divides by the number of ranks. Hand on `grad` as it is."),
        edit("return grad", "return None",
             says="Forward is right, but backward returns no gradient: the rank's part would learn nothing."),
        edit("total = part.clone()", "total = part", says="rank 0 changed `part`, which its caller goes on using"),
        edit("total = part.clone()", "total = part\n        ctx.mark_dirty(part)",
             says="rank 0 changed `part`, which its caller goes on using"),
        edit("dist.all_reduce(total)", "dist.reduce(total, 0)", says="rank 1 is wrong"),
        edit("dist.all_reduce(total)", DEADLOCK, says="deadlock: ", hangs=True),
        edit("return grad", "mean = grad / dist.get_world_size()\n        dist.all_reduce(mean)\n        return mean",
             says="Forward needs one, backward none."),
        edit("all_reduce(total)", "broadcast(total, 0)", says="This is the part of rank 0 alone."),
        edit("return grad", "return torch.ones_like(grad)",
             says="Backward begins with ones, as if the output were the loss. Hand on `grad`."),
        edit("part.clone()", "part.float()", says="wrong"),
        edit("return total", "return total + part", says="The rank's own part counts twice."),
        edit("return grad", "return grad if dist.get_rank() == 0 else grad * 0",
             says="Only rank 0's part learns: every part needs the gradient."),
        edit("dist.all_reduce(total)", "dist.all_reduce(total, async_op=True)",
             says="never waits for its asynchronous all_reduce", hangs=True),  # what it gives depends on chance
        body("""\
@staticmethod
def forward(ctx, part):
    from labkit.algorithms import SumOverRanks
    return SumOverRanks.forward(ctx, part)

@staticmethod
def backward(ctx, grad):
    from labkit.algorithms import SumOverRanks
    return SumOverRanks.backward(ctx, grad)""", says="that is what you shall write"),
    ),
    becomes="SumOverRanks",
)  # fmt: skip


def _layer(generator: torch.Generator, size: int) -> Arguments:
    """Per rank its columns of the input and its rows of the weights; the whole bias, the same on all."""
    rows, inner, columns = (_between(generator, 2, 6) for _ in range(3))
    bias = normal(generator, columns)
    return [
        (normal(generator, rows, inner), normal(generator, inner, columns), bias.clone()) for _ in range(size)
    ]


ROW_LAYER = """\
def row_parallel(x, weight, bias):
    part = x @ weight
    dist.all_reduce(part)
    return part + bias
"""
ROW_PARALLEL = Exercise(
    task="A layer that is cut by rows: this rank has its columns of the input, its rows of the weights, and "
    "the bias of the whole layer. It gives the right output on one rank, and on more ranks a wrong one. "
    "**Find the bug and mend it.** Budget: one collective call.",
    stub=edited(ROW_LAYER, "x @ weight", "x @ weight + bias", "return part + bias", "return part"),
    solution=ROW_LAYER,
    why="Each rank added the whole bias to its partial sum, so the output has it R times. What belongs to "
    "the output, and not to a part, comes after the sum. (The output is also right if each rank adds bias / "
    "R, or one rank adds all of it, before the sum. But then the gradient of the bias is 1/R of what it "
    "should be, or only that one rank has it.)",
    hints=(
        "Write the sum over ranks that this computes. How often is each term in it?",
        "The bias must be added once: after the all-reduce.",
    ),
    given=_layer,
    judge=like_solution(1e-9),
    limits=(Limit("collectives", lambda arguments: 1, "One sum over the ranks is enough."),),
    wrong=(
        edit("return part + bias", "return part + world_size * bias",
             says="The bias is in there once for each rank. Add it once: after the sum."),
        edit("return part + bias", "return part", says="The bias is missing."),
        edit("return part + bias", "return part / world_size + bias",
             says="This is the mean of the partial sums: their sum is the output. Divide by nothing."),
        edit("    dist.all_reduce(part)\n", "",
             says="That is the rank's own partial sum: nothing has come from the others."),
        edit("part = x @ weight", "bias /= world_size\n    part = x @ weight + bias", "return part + bias", "return part",
             says="rank 0 changed `bias`, which its caller goes on using"),
        edit("dist.all_reduce(part)", "if rank == 0:\n        dist.all_reduce(part)", says="deadlock: ", hangs=True),
        edit("dist.all_reduce(part)", "dist.reduce(part, 0)\n    dist.broadcast(part, 0)",
             says="One sum over the ranks is enough."),
        body("""\
every = [None] * world_size
dist.all_gather_object(every, (x, weight))
return sum(x @ weight for x, weight in every) + bias""", says="One sum over the ranks is enough."),
        edit("x @ weight", "x @ weight + bias", "return part + bias", "return part - bias",
             says="in a world of 3, ranks 0-2 are wrong"),
        edit("x @ weight", "x @ weight + bias / 2", "return part + bias", "return part",
             says="in a world of 3, ranks 0-2 are wrong"),
        edit("return part + bias", "return part - bias", says="The bias is subtracted: add it."),
        edit("x @ weight", "(x @ weight).float()", says="float64 was asked for"),
        edit("x @ weight", "(x.float() @ weight.float()).double()", says="ranks 0-1 are wrong"),
        edit("x @ weight", "x[:, :1] @ weight[:1]", says="ranks 0-1 are wrong"),
    ),
)  # fmt: skip


def _fused(generator: torch.Generator, size: int) -> Arguments:
    """Heads, the size of a head and the width are drawn apart: none follows from another."""
    heads, head = size * _between(generator, 2, 4), _between(generator, size, size + 1)
    width = _between(generator, 4, 9)
    return [(normal(generator, 3 * heads * head, width), heads)] * size


TAKE_YOUR_PART = "The whole matrix is there: take your part of it."
MY_HEADS = Exercise(
    task="Many models keep `q`, `k` and `v` in one fused matrix. `weight` has the rows of `q`, head after "
    "head, then those of `k`, then those of `v`: three times `heads` times the size of a head. Each rank "
    "takes `heads / world_size` consecutive heads. Return its rows: of `q`, then of `k`, then of `v`. Every "
    "rank has the whole matrix, so no message and no collective is needed.",
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
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: 0, TAKE_YOUR_PART),
        Limit("messages", lambda arguments: 0, TAKE_YOUR_PART),
    ),
    wrong=(
        body("return weight.chunk(world_size)[rank]",
             says="This cuts the fused matrix as it stands: the first rank has q alone, the last one v alone."),
        edit("chunk(world_size, 1)[rank]", "chunk(world_size, 1)[rank].transpose(0, 1)",
             says="These are the right heads in another order: q of all your heads first, then k, then v."),
        edit("[rank]", "[0]", says="These are the heads of rank 0."),
        edit("[rank]", "[world_size - 1 - rank]", says="These are the heads of another rank: rank 0 has the first."),
        body("return weight.chunk(world_size, 1)[rank]", says="in a world of 2, ranks 0-1 are wrong"),
        edit("flatten(0, 2)", "flatten(0, 2)[: len(weight) // 3 // world_size]",
             says="This is q of the rank's heads. Return k and v of them, too."),
        edit("chunk(world_size, 1)[rank]", "unflatten(1, (-1, world_size))[:, :, rank]",
             says="A rank's heads are not every second or third one, but those beside each other."),
        edit("[rank].", "[rank].flip(0).", says="This is v first: return q, then k, then v."),
        edit("chunk(world_size, 1)", "chunk(4, 1)", says="wrong"),
        edit("-1, weight.shape[1]", "2, weight.shape[1]", says="RuntimeError"),
        edit("flatten(0, 2)", "flatten(0, 2).float()", says="float64 was asked for"),
        edit("flatten(0, 2)", "flatten(0, 2).half().double()", says="wrong"),
        edit("flatten(0, 2)", "flatten(1, 2)", says="wrong"),
        edit("chunk(world_size, 1)[rank]", "chunk(world_size, 1)[rank][:, :1]",
             says="This is one head of each rank's. Take all that are its."),
        edit("return by_head.chunk(world_size, 1)[rank].flatten(0, 2)", """\
parts = [part.flatten(0, 2) for part in by_head.chunk(world_size, 1)]
    mine = torch.empty_like(parts[0])
    dist.scatter(mine, parts if rank == 0 else None, 0)
    return mine""", says=TAKE_YOUR_PART),
        edit("return by_head.chunk(world_size, 1)[rank].flatten(0, 2)", """\
parts = [part.flatten(0, 2) for part in by_head.chunk(world_size, 1)]
    if rank == 0:
        for r in range(1, world_size):
            dist.send(parts[r], r)
    else:
        dist.recv(parts[rank], 0)
    return parts[rank]""", says=TAKE_YOUR_PART),
    ),
)  # fmt: skip


def _scores(generator: torch.Generator, size: int) -> Arguments:
    """Scores whose exponentials are no floats, with gaps between ranks; targets at the edges of each part."""
    samples, classes = _between(generator, 30, 50), _between(generator, 8, 20)
    edges = [r * classes + c for r in range(size) for c in (0, classes - 1)]
    others = torch.randint(size * classes, (samples - len(edges),), generator=generator)
    target = torch.cat([torch.tensor(edges), others])[torch.randperm(samples, generator=generator)]
    around = 1000 * normal(generator, samples, 1)
    # In every second sample one rank has all that counts: only the largest score of all ranks will do.
    gaps = torch.zeros(samples, size, dtype=torch.float64)
    gaps[::2, {2: 1, 3: 0}.get(size, _between(generator, 1, 2))] = 2000
    return [
        (around + gaps[:, r : r + 1] + 3 * normal(generator, samples, classes), target) for r in range(size)
    ]


NO_FLOAT = (
    "exp(1000) is beyond any float. Subtract the largest score of all ranks first: the loss does not change."
)


DO_NOT_GATHER = "That is more than three numbers per sample: do not gather the scores."
MAXIMUM = "    dist.all_reduce(largest, dist.ReduceOp.MAX)\n"
SPLIT_CROSS_ENTROPY = Exercise(
    task="The last layer is split, too: rank $r$ has the `scores` of its classes, `[samples, classes / "
    "world_size]`; class numbers go on from rank to rank. `target` has the right class of each sample, on "
    "every rank. Return the mean cross entropy on every rank, as a number (nothing is differentiated), "
    "without gathering the scores: three all-reduces of one number per sample suffice. That is the budget: "
    "three collective calls, to which a rank hands three numbers per sample in all.",
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
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: 3, "A maximum, a sum, and the score of the target."),
        Limit("handed", lambda arguments: 3 * arguments[0][1].numel() * 8, DO_NOT_GATHER),
    ),
    wrong=(
        edit(f"scores.amax(1)\n{MAXIMUM}", "torch.zeros_like(scores[:, 0])\n", says=NO_FLOAT),
        edit(f"scores.amax(1)\n{MAXIMUM}", "torch.full_like(scores[:, 0], 1000)\n", says=NO_FLOAT),
        edit(MAXIMUM, "    dist.broadcast(largest, 0)\n", says=NO_FLOAT),
        edit("scores.amax(1)", "scores.max().expand(len(scores)).clone()", says=NO_FLOAT),
        edit(MAXIMUM, "",
             says="Each rank subtracted its own largest score. It must be the same on all: ReduceOp.MAX."),
        edit("    dist.all_reduce(total)\n", "", says="Each rank added up its own exponentials only."),
        edit(MAXIMUM, "", "    dist.all_reduce(total)\n", "", says="Each rank added up its own exponentials only."),
        edit("mean()", "sum()", says="This is the sum over the samples. Return their mean."),
        edit("    dist.all_reduce(wanted)\n", "",
             says="A rank counts only the targets among its own classes: add their scores up over all ranks."),
        edit("- wanted).mean()", ").mean()", says="The score of the target is missing."),
        edit("here = target - rank * scores.shape[1]", "here = target",
             says="Every rank takes its first class for class 0. Class numbers go on from rank to rank."),
        edit("here >= 0", "here > 0", says="Of each rank its first class is missing."),
        edit("here < scores.shape[1]", "here < scores.shape[1] - 1", says="Of each rank its last class is missing."),
        edit("- wanted).mean()", "- wanted)[mine].mean()",
             says="The mean is over the samples whose target a rank has. Return that over all of them."),
        edit("largest = scores", "scores = scores.float()\n    largest = scores", says="wrong"),
        edit("dist.all_reduce(wanted)", "if rank:\n        dist.all_reduce(wanted)",
             says="deadlock: rank 0 finished the cell, and others wait for it", hangs=True),
        edit(MAXIMUM, "    dist.reduce(largest, 0, dist.ReduceOp.MAX)\n    dist.broadcast(largest, 0)\n",
             says="A maximum, a sum, and the score of the target."),
        body("""\
parts = [torch.empty_like(scores) for _ in range(world_size)]
dist.all_gather(parts, scores)
return torch.nn.functional.cross_entropy(torch.cat(parts, 1), target)""", says=DO_NOT_GATHER),
        body("""\
parts = [torch.empty_like(scores) for _ in range(world_size)]
works = [dist.isend(scores, r) for r in range(world_size) if r != rank]
for r in range(world_size):
    if r != rank:
        dist.recv(parts[r], r)
parts[rank].copy_(scores)
for work in works:
    work.wait()
return torch.nn.functional.cross_entropy(torch.cat(parts, 1), target)""", says=DO_NOT_GATHER),
        body("""\
here = target - rank * scores.shape[1]
mine = (here >= 0) & (here < scores.shape[1])
loss = torch.nn.functional.cross_entropy(scores[mine], here[mine])
dist.all_reduce(loss)
return loss / world_size""", says="wrong"),
    ),
)  # fmt: skip


LESSON = Lesson(
    number="16",
    title="Cut inside a layer: tensor parallelism",
    predictions=(Prediction("block_all_reduces", "all-reduces"),),
    exercises=(COPY_TO_RANKS, SUM_OVER_RANKS, ROW_PARALLEL, MY_HEADS, SPLIT_CROSS_ENTROPY),
    questions=questions("16"),
)
