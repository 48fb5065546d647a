"""Lesson 18, Share the state: its predictions, exercises and questions."""

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
from labkit.exercises.lessons.networks import Tensors, normal, rows_of


def _between(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _ring(halves: float, tensor: torch.Tensor, size: int) -> float:
    """Bytes that leave a rank in so many reduce-scatters or all-gathers of a tensor."""
    return halves * tensor.nbytes * (size - 1) / size


def _weights(generator: torch.Generator, size: int) -> Arguments:
    """The network computes in another precision than the optimiser, in which weights outweigh a step."""
    shape = size * _between(generator, 2, 5), _between(generator, 2, 5)
    weights, given = 1000 * normal(generator, *shape), []
    rate = _between(generator, 30, 90) / 100
    for rank in range(size):
        whole = weights.float().requires_grad_()
        whole.grad = 30 * normal(generator, *shape).float()
        master = rows_of(weights, rank, size).requires_grad_()
        master.grad = normal(generator, *master.shape)
        given.append((whole, master, torch.optim.SGD([master], lr=rate)))
    return given


SCATTERED = "dist.reduce_scatter_single(mine, whole.grad)"
STEPPED_OWN = "Each rank stepped along its own gradient"
SHARDED_STEP = Exercise(
    task="`whole` is a weight matrix, the same on every rank, in the network's precision; "
    "`whole.grad` is this rank's own gradient. `master` is this rank's share of the rows, in the precision "
    "of its `optimizer`. Set `master.grad` to its rows of the mean gradient, make the step, and give every "
    "rank all rows of the new `whole`. Budget: two collective calls, which send as little as one all-reduce "
    "would.",
    stub="""\
def my_sharded_step(whole, master, optimizer):
    ...  # your code
""",
    solution=algorithm("sharded_state.sharded_step", "my_sharded_step"),
    why="An all-reduce is a reduce-scatter and then an all-gather. Between the two each rank has a complete "
    "sum of its rows alone: enough to update these. What is gathered then is weights in place of gradients, "
    "and the bytes are the same.",
    hints=(
        "dist.reduce_scatter_single(mine, whole.grad) leaves in `mine` the sum of this rank's rows.",
        "Five lines: an empty `mine` like those rows, the reduce-scatter, "
        "master.grad = mine.to(master.dtype) / world_size, optimizer.step(), "
        "dist.all_gather_single(whole.data, master.detach().to(whole.dtype)).",
    ),
    given=_weights,
    # Halves: two right sums may differ in their last bit.
    answer=lambda arguments, result: torch.cat([arguments[0].detach().half().double(), arguments[1].detach()]),
    judge=like_solution(1e-8),
    limits=(
        Limit("collectives", lambda arguments: 2, "One call adds and hands out, one gathers."),
        Limit("sent", lambda arguments: _ring(2, arguments[0][0], len(arguments)),
              "An all-reduce brings each rank rows that it does not update: use reduce_scatter_single."),
    ),
    changes=("whole", "master"),
    becomes="sharded_step",
    wrong=(
        edit(" / dist.get_world_size()", "", says="The step took the sum. Divide it by the number of ranks."),
        edit(SCATTERED, "mine = whole.grad.chunk(dist.get_world_size())[dist.get_rank()]", " / dist.get_world_size()", "",
             says=f"{STEPPED_OWN}: nothing has been added."),
        edit(SCATTERED, "mine = whole.grad.chunk(dist.get_world_size())[dist.get_rank()]", says=f"{STEPPED_OWN}, divided."),
        edit("    dist.all_gather_single(whole.data, master.detach().to(whole.dtype))\n", "",
             says="The rows in `master` are right, and `whole` is as it was: gather the new rows of all ranks."),
        edit("    optimizer.step()\n", "", "whole.dtype))\n", "whole.dtype))\n    optimizer.step()\n",
             says="The rows in `master` are right, and `whole` is as it was: gather the new rows of all ranks."),
        edit("    optimizer.step()\n", "", says="No step was made."),
        edit("    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n", says="Two steps were made, and one was asked for."),
        edit("master.grad = mine", "master.grad += mine",
             says="What `master.grad` held before is of an earlier step: put the new gradient in its place."),
        edit("whole.grad)\n", "whole.grad, async_op=True)\n", says="HazardError", hangs=True),
        edit(".to(master.dtype)", "", says="RuntimeError", hangs=True),
        edit("    dist.all_gather", "    master.data.copy_(master.detach().to(whole.dtype))\n    dist.all_gather",
             says="The master weights have lost digits: whole has fewer, master keeps all of its own."),
        edit("mine.to(master.dtype)", "mine.half().to(master.dtype)", says="wrong"),
        edit("optimizer.step()", "master.data -= 0.5 * master.grad", says="wrong"),
        edit(SCATTERED, "dist.all_reduce(whole.grad)\n    mine = whole.grad.chunk(dist.get_world_size())[dist.get_rank()]",
             says="An all-reduce brings each rank rows that it does not update: use reduce_scatter_single."),
        edit("    mine = ", "    every = [torch.empty_like(whole.grad) for _ in range(dist.get_world_size())]\n    mine = ",
             SCATTERED, "dist.all_gather(every, whole.grad)\n    mine = sum(every).chunk(dist.get_world_size())[dist.get_rank()]",
             says="An all-reduce brings each rank rows that it does not update: use reduce_scatter_single."),
        edit("    optimizer.step()\n", "    dist.barrier()\n    optimizer.step()\n", says="One call adds and hands out, one gathers."),
        edit("    dist.all_gather", "    if dist.get_rank() == 0:\n        dist.all_gather", says="deadlock: ", hangs=True),
        edit("whole.dtype))\n", "whole.dtype))\n    if dist.get_rank():\n        whole.data.zero_()\n", says="rank 1 is wrong"),
        body("from labkit.algorithms import sharded_step\nsharded_step(whole, master, optimizer)", says="that is what you shall write"),
    ),
)  # fmt: skip


def _network(generator: torch.Generator, size: int) -> Arguments:
    """The matrices stand in another order than they are used in, and one is used twice."""
    layers, width = _between(generator, 5, 7), 12 * _between(generator, 2, 3)
    weights = [normal(generator, width, width) / width**0.5 for _ in range(layers)]
    order, given = [*torch.randperm(layers, generator=generator).tolist()], []
    for _ in range(size):
        wholes = [w.clone().requires_grad_() for w in weights]
        x = normal(generator, 1, width)
        for i in (*order, order[1]):
            x = torch.tanh(x @ wholes[i].T)
        given.append((x.square().sum(), wholes))
    return given


def _what_is_left(arguments: tuple, result: Any) -> Any:
    """The parts, and below them a row: how many matrices have a gradient still, and how many a hook."""
    wholes = arguments[1]
    tensors = isinstance(result, (list, tuple)) and all(torch.is_tensor(part) for part in result)
    if not tensors or any(part.shape[1:] != wholes[0].shape[1:] for part in result):
        return result
    left = wholes[0].new_zeros(1, wholes[0].shape[1]).to(result[0].dtype)
    left[0, 0] = sum(whole.grad is not None for whole in wholes)
    left[0, 1] = sum(bool(whole._post_accumulate_grad_hooks) for whole in wholes)
    return torch.cat([*result, left]).detach()


ONLY_THREE = "That is more than three whole gradients: share each from a hook, and free it there."
SHARED = "dist.reduce_scatter_single(mine, whole.grad)"
AFTER_BACKWARD = """\
loss.backward()
parts = []
for whole in wholes:
    mine = torch.empty_like(whole.grad[: len(whole) // world_size])
    dist.reduce_scatter_single(mine, whole.grad)
    whole.grad = None
    parts.append(mine / world_size)
return parts"""
SHARDED_BACKWARD = Exercise(
    task="`wholes` are the weight matrices of the network. Call `loss.backward()`. As soon as the gradient "
    "of one is complete, take this rank's rows of its mean over all ranks, and free it: `whole.grad = None`. "
    "Return the list of these parts, in the order of `wholes`, and leave no hook behind. Budget: at no time "
    "more than three whole gradients; for each matrix one collective call, which sends a rank no more than its "
    "own rows of the sum.",
    stub="""\
def my_sharded_backward(loss, wholes):
    ...  # your code
""",
    solution=algorithm("sharded_state.sharded_backward", "my_sharded_backward"),
    why="A rank needs whole gradients only until they are added up, and the backward pass makes them one "
    "after the other: so there need never be more than one or two. The hooks are those of lesson 13, where "
    "they began an all-reduce.",
    hints=(
        "whole.register_post_accumulate_grad_hook(f) calls f(whole) when whole.grad is complete, and returns "
        "a handle with remove().",
        "In the hook: an empty tensor of len(whole) // world_size rows, dist.reduce_scatter_single, the "
        "division, whole.grad = None. Keep the part in a dict under `whole`.",
    ),
    given=_network,
    answer=_what_is_left,
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: len(arguments[0][1]), "One reduce-scatter for each matrix."),
        Limit("sent", lambda arguments: sum(_ring(1, whole, len(arguments)) for whole in arguments[0][1]),
              "A rank needs the sum of its own rows only: reduce_scatter_single."),
        Limit("memory", lambda arguments: arguments[0][1][0].nbytes * (3.5 + (len(arguments[0][1]) + 1) / len(arguments)),
              ONLY_THREE),
    ),
    becomes="sharded_backward",
    wrong=(
        edit("mine / dist.get_world_size()", "mine", says="These are sums. Divide them by the number of ranks."),
        edit(SHARED, "mine = whole.grad.chunk(dist.get_world_size())[dist.get_rank()].clone()",
             "mine / dist.get_world_size()", "mine", says="These are the rank's own gradients: nothing has been added."),
        edit("        whole.grad = None\n", "",
             says="The parts are right, but whole gradients are still there: set whole.grad = None."),
        edit("    for hook in hooks:\n        hook.remove()\n", "",
             says="The parts are right, but your hooks are still there, and the next step adds others. "
             "Remove what register_post_accumulate_grad_hook returned: handle.remove()."),
        edit("        whole.grad = None\n", "", "    return", "    for whole in wholes:\n        whole.grad = None\n    return",
             says=ONLY_THREE),
        body(AFTER_BACKWARD, says=ONLY_THREE),
        body(AFTER_BACKWARD.replace("loss.backward()", "for whole, g in zip(wholes, torch.autograd.grad(loss, wholes)):\n    whole.grad = g"),
             says=ONLY_THREE),
        edit("        whole.grad = None\n", "        kept.append(whole.grad.numpy().copy())\n        whole.grad = None\n",
             "parts = {}", "parts, kept = {}, []", says=ONLY_THREE),
        edit("        whole.grad = None\n", "        kept.append(whole.grad.tolist())\n        whole.grad = None\n",
             "parts = {}", "parts, kept = {}, []", says=ONLY_THREE),
        edit("        whole.grad = None\n", "        kept.append(whole.grad)\n        whole.grad = None\n", "parts = {}", "parts, kept = {}, []",
             says=ONLY_THREE),
        edit("[parts[whole] for whole in wholes]", "list(parts.values())",
             says="The parts stand in the order in which gradients were complete. Return them in that of `wholes`."),
        edit("[parts[whole] for whole in wholes]", "list(parts.values())[::-1]",
             says="The parts stand in the order of the forward pass. Return them in that of `wholes`."),
        edit("[parts[whole] for whole in wholes]", "[parts[whole].float() for whole in wholes]", says="float64 was asked for"),
        edit("[parts[whole] for whole in wholes]", "[parts[whole].half().double() for whole in wholes]", says="wrong"),
        edit(SHARED, "dist.all_reduce(whole.grad)\n        mine = whole.grad.chunk(dist.get_world_size())[dist.get_rank()].clone()",
             says="A rank needs the sum of its own rows only: reduce_scatter_single."),
        edit(SHARED, f"if dist.get_rank() == 0:\n            {SHARED}",
             says="deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in reduce_scatter_tensor", hangs=True),
        edit("        whole.grad = None\n", "        whole.grad = None\n        dist.barrier()\n", says="One reduce-scatter for each matrix."),
        body("from labkit.algorithms import sharded_backward\nreturn sharded_backward(loss, wholes)", says="that is what you shall write"),
    ),
)  # fmt: skip


def _layer(generator: torch.Generator, size: int) -> Arguments:
    rows, columns, samples = (
        size * _between(generator, 2, 5),
        _between(generator, 2, 6),
        _between(generator, 2, 4),
    )
    weights = normal(generator, rows, columns)
    return [
        (normal(generator, samples, columns), rows_of(weights, rank, size), normal(generator, samples, rows))
        for rank in range(size)
    ]


def _there_and_back(layer: Any, arguments: tuple) -> torch.Tensor:
    """Output, gradients of x and of the part; at last the bytes that are kept from forward to backward."""
    from labkit.algorithms.memory import Memory  # which needs torch

    x, part, grad = arguments
    leaves = [x.clone().requires_grad_(), part.clone().requires_grad_()]
    with Memory(leaves) as memory:
        out = layer.apply(*leaves)
        kept = memory.now - (out.nbytes if torch.is_tensor(out) else 0)
    out.backward(grad)
    found = [out.detach(), *(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves)]
    return torch.cat([*(tensor.flatten() for tensor in found), torch.tensor([float(kept)])])


RIGHT_BUT = "Output and gradient of x are right. That of the part is"
KEPT = (
    "All numbers are right, but the whole matrix is kept from forward to backward. Save `x` and `part`, and "
    "gather once more."
)
TWICE_GATHERED = "Backward gathers once more: what was whole in forward is gone."


def _three_halves(arguments: Arguments) -> float:
    return 3 * arguments[0][1].nbytes * (len(arguments) - 1)


SHARDED = Exercise(
    task="`Sharded.apply(x, part)` shall be `x @ whole.T`, where each rank has its own `x`, and of `whole` "
    "its rows, `part`. Forward: gather, multiply, and keep nothing but `x` and `part`. Backward: gather once "
    "more; return the gradient of `x`, `grad @ whole`, and this rank's rows of the mean over all ranks of "
    "`grad.T @ x`. `gathered` is there. Budget: one collective call forward and two backward, and a rank "
    "gets no more of that sum than its rows.",
    stub="""\
class MySharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, part):
        ctx.save_for_backward(x, part)
        ...  # your code: the output

    @staticmethod
    def backward(ctx, grad):
        x, part = ctx.saved_tensors
        ...  # your code: the gradients of x and of part
""",
    solution=algorithm("sharded_state.Sharded", "MySharded"),
    why="The whole matrix is a local variable: it is gone when the function returns. That costs two "
    "all-gathers, forward and backward, in place of the one after the optimiser's step of stages 1 and 2.",
    hints=(
        "Forward is one line with gathered(part).",
        "Backward: of_x = grad @ gathered(part); then a reduce-scatter of grad.T @ x into a tensor like "
        "part, divided by the number of ranks; return both.",
    ),
    given=_layer,
    use=_there_and_back,
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: 3, "Gather, gather once more, and share the gradient."),
        Limit("sent", _three_halves, "A rank needs the gradient of its own rows only: reduce_scatter_single.",
              least=lambda arguments: _three_halves(arguments) - 1, too_little=TWICE_GATHERED),
    ),
    uses=("gathered",),
    becomes="Sharded",
    wrong=(
        edit("mine / dist.get_world_size()", "mine", says=f"{RIGHT_BUT} the sum: divide it."),
        edit("dist.reduce_scatter_single(mine, grad.T @ x)", "mine = (grad.T @ x).chunk(dist.get_world_size())[dist.get_rank()]",
             "mine / dist.get_world_size()", "mine", says=f"{RIGHT_BUT} the rank's own: nothing has been added."),
        edit("dist.reduce_scatter_single(mine, grad.T @ x)", "mine = (grad.T @ x).chunk(dist.get_world_size())[dist.get_rank()]",
             says=f"{RIGHT_BUT} the rank's own, divided: nothing has been added."),
        edit("return x @ gathered(part).T", "ctx.whole = gathered(part)\n        return x @ ctx.whole.T", "grad @ gathered(part)",
             "grad @ ctx.whole", says=KEPT),
        edit("return x @ gathered(part).T", "ctx.kept = [(gathered(part),)]\n        return x @ ctx.kept[0][0].T",
             "grad @ gathered(part)", "grad @ ctx.kept.pop()[0]", says=KEPT),
        edit("return x @ gathered(part).T", "MySharded.kept = [gathered(part)]\n        return x @ MySharded.kept[0].T",
             "grad @ gathered(part)", "grad @ MySharded.kept.pop()", says=KEPT),
        edit("save_for_backward(x, part)\n", "save_for_backward(x, part, gathered(part))\n", "x @ gathered(part).T",
             "x @ ctx.to_save[2].T", "x, part = ctx", "x, part, whole = ctx", "grad @ gathered(part)", "grad @ whole", says=KEPT),
        edit("return x @ gathered(part).T", "ctx.whole = gathered(part).numpy().copy()\n        return x @ torch.from_numpy(ctx.whole).T",
             "grad @ gathered(part)", "grad @ torch.from_numpy(ctx.whole)", says=TWICE_GATHERED),
        edit("mine / dist.get_world_size()", "mine / (dist.get_world_size() if dist.get_rank() == 0 else 1)", says="rank 1 is wrong"),
        edit("x @ gathered(part).T", "torch.cat([x @ part.T] * dist.get_world_size(), 1)", says="in a world of 2, ranks 0-1 are wrong"),
        edit("grad @ gathered(part)", "grad.chunk(dist.get_world_size(), 1)[dist.get_rank()] @ part",
             says="The gradient of x comes from this rank's rows alone: gather once more."),
        edit("return of_x, mine", "return None, mine", says="Backward returns no gradient of x: layers before this one learn nothing."),
        edit("mine = torch.empty_like(part)", "mine = torch.empty_like(grad.T @ x)",
             "dist.reduce_scatter_single(mine, grad.T @ x)",
             "mine.copy_(grad.T @ x)\n        dist.all_reduce(mine)\n        mine = mine.chunk(dist.get_world_size())[dist.get_rank()]",
             says="A rank needs the gradient of its own rows only: reduce_scatter_single."),
        edit("return of_x", "dist.barrier()\n        return of_x", says="Gather, gather once more, and share the gradient."),
        edit("dist.reduce_scatter_single(", "dist.get_rank() or dist.reduce_scatter_single(", says="deadlock: ", hangs=True),
        edit("x @ gathered(part).T", "(x @ gathered(part).half().to(x.dtype).T)", says="wrong"),
        edit("grad.T @ x)", "(grad.T @ x).float().to(x.dtype))", says="wrong"),
        body("""\
@staticmethod
def forward(ctx, x, part):
    from labkit.algorithms import Sharded
    return Sharded.forward(ctx, x, part)

@staticmethod
def backward(ctx, grad):
    from labkit.algorithms import Sharded
    return Sharded.backward(ctx, grad)""", says="that is what you shall write"),
    ),
)  # fmt: skip


def _accumulating(generator: torch.Generator, size: int) -> Arguments:
    rows, columns, many = (
        size * _between(generator, 2, 5),
        _between(generator, 2, 5),
        _between(generator, 3, 5),
    )
    rate = _between(generator, 30, 90) / 100
    weights, given = normal(generator, rows, columns), []
    for rank in range(size):
        whole = weights.clone().requires_grad_()
        master = rows_of(weights, rank, size).requires_grad_()
        master.grad = normal(generator, *master.shape)
        batches = [(normal(generator, 2, columns), normal(generator, 2, rows)) for _ in range(many)]
        given.append((whole, master, batches, torch.optim.SGD([master], lr=rate)))
    return given


ACCUMULATE = """\
def accumulate_sharded(whole, master, batches, optimizer):
    master.grad = torch.zeros_like(master)
    for x, y in batches:
        loss = (x @ whole.T - y).square().mean() / len(batches)
        loss.backward()
        mine = torch.empty_like(master)
        dist.reduce_scatter_single(mine, whole.grad)
        whole.grad = None
        master.grad += mine / dist.get_world_size()
    optimizer.step()
    dist.all_gather_single(whole.data, master.detach())
"""
ONE_EACH = "One reduce-scatter for each micro-batch, and one all-gather at the end."
ACCUMULATE_SHARDED = Exercise(
    task="Gradient accumulation at stage 2. Each rank has its `batches`; one step shall follow the mean over "
    "all micro-batches of all ranks. `master.grad` holds the gradient of an earlier step, which counts no "
    "more. It runs without an error, the loss falls, and the weights are not those of one process. **Find "
    "the bug and mend it**, with at most one reduce-scatter for each micro-batch and one all-gather.",
    stub=edited(ACCUMULATE, "    master.grad = torch.zeros_like(master)\n", "", "master.grad += mine", "master.grad = mine"),
    solution=ACCUMULATE,
    why="backward() adds to whole.grad, but that is freed each time. So the parts must be added up, and the "
    "assignment put each in the place of the one before: the shard was stepped with the last micro-batch's "
    "gradient alone, a part of the step in a direction of its own.",
    hints=(
        "Which micro-batches does master.grad know of when optimizer.step() is called?",
        "Begin with zeros, and add each part to master.grad.",
    ),
    given=_accumulating,
    answer=lambda arguments, result: torch.cat([arguments[0].detach(), arguments[1].detach()]),
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: len(arguments[0][2]) + 1, ONE_EACH),
        Limit("sent", lambda arguments: _ring(len(arguments[0][2]) + 1, arguments[0][0], len(arguments)), ONE_EACH),
    ),
    changes=("whole", "master"),
    wrong=(
        edit("master.grad += mine", "master.grad = 1 * mine",
             says="This step knows the last micro-batch alone: the parts must be added up."),
        edit("        master.grad +=", "        if not master.grad.any():\n            master.grad +=",
             says="This step knows the first micro-batch alone."),
        edit("        whole.grad = None\n", "",
             says="Earlier micro-batches count several times: share whole.grad when all are in it, or free it after each."),
        edit(" / len(batches)", "", says="This is the sum over the micro-batches. Take their mean."),
        edit("    optimizer.step()\n", "", says="The weights are as they were."),
        edit("    master.grad = torch.zeros_like(master)\n", "",
             says="What `master.grad` held before is of an earlier step: begin with zeros."),
        edit("mine / dist.get_world_size()", "mine", says="This is the sum over the ranks. Take their mean."),
        edit("        dist.reduce_scatter_single(mine, whole.grad)\n",
             "        mine = whole.grad.chunk(dist.get_world_size())[dist.get_rank()]\n",
             says="Each rank stepped along its own gradient, divided: nothing has been added."),
        edit("in batches:", "in batches[:-1]:", says="The last micro-batch is left out."),
        edit("    dist.all_gather_single", "    if dist.get_rank() == 0:\n        dist.all_gather_single", says="deadlock: ", hangs=True),
        edit("    optimizer.step()\n", "        dist.all_gather_single(whole.data, master.detach())\n    optimizer.step()\n", says=ONE_EACH),
        edit("dist.reduce_scatter_single(mine, whole.grad)",
             "dist.all_reduce(whole.grad)\n        mine = whole.grad.chunk(dist.get_world_size())[dist.get_rank()]", says=ONE_EACH),
        edit("+= mine", "+= mine.half()", says="wrong"),
    ),
)  # fmt: skip


def _lengthy(generator: torch.Generator, size: int) -> Arguments:
    """Ranks' parts are of different lengths; the whole is far above the border, just below or just above."""
    parts = [
        [(1 + rank) * normal(generator, *shape) for shape in ((4,), (3, 2), (_between(generator, 1, 5),))]
        for rank in range(size)
    ]
    norms = [torch.cat([p.flatten() for p in mine]).norm().item() for mine in parts]
    norm = sum(n**2 for n in norms) ** 0.5
    most = {2: 0.5 * min(norms), 3: 1.02 * norm, 4: 0.98 * norm}[size]
    return [(Tensors(mine), most) for mine in parts]


ONE_SUM = "One sum over the ranks is enough."
CLIP_PARTS = Exercise(
    task="Training clips long gradients: if the norm of the whole gradient is above `most`, all of it is "
    "multiplied by `most / norm`. Here `parts` are this rank's parts of all gradients. Clip them in place, "
    "with one collective of one number.",
    stub="""\
def clip_parts(parts, most):
    ...  # your code
""",
    solution="""\
def clip_parts(parts, most):
    square = sum(part.square().sum() for part in parts)
    dist.all_reduce(square)
    factor = min(1.0, most / square.sqrt().item())
    for part in parts:
        part *= factor
""",
    why="The square of a norm is a sum over all elements, so over ranks: add the squares, then take the "
    "root. Clipped by norms of their own, ranks would turn the gradient into another direction. That "
    "is the kind of code that must be thought of anew when gradients are in parts.",
    hints=(
        "Which of norm and square of the norm can be added up?",
        "All-reduce the sum of squares; the factor is min(1, most / root); multiply each part in place.",
    ),
    given=_lengthy,
    answer=lambda arguments, result: torch.cat([part.flatten() for part in arguments[0].own]),
    judge=like_solution(1e-6),
    limits=(
        Limit("collectives", lambda arguments: 1, ONE_SUM),
        Limit("handed", lambda arguments: 8, "One number is enough: the sum of the squares."),
    ),
    changes=("parts",),
    wrong=(
        edit("    dist.all_reduce(square)\n", "", says="Each rank clipped by the norm of its own parts."),
        edit("dist.all_reduce(square)", "square = square.sqrt()\n    dist.all_reduce(square)", "square.sqrt()", "square",
             says="Norms were added. Add their squares, and take the root then."),
        edit("square.sqrt().item()", "square.item()", says="The root is missing: this clips by the square."),
        edit("min(1.0, most / square.sqrt().item())", "most / square.sqrt().item()",
             says="A gradient that was short enough was made longer: the factor is at most 1."),
        edit("    for part in parts:\n        part *= factor", "    parts = [part * factor for part in parts]\n    return parts",
             says="The parts are as they were: change them in place."),
        edit("    for part in parts:\n        part *= factor", "    parts[:] = [part * factor for part in parts]",
             says="The parts are as they were: change them in place."),
        edit("all_reduce(square)", "all_reduce(square, op=dist.ReduceOp.MAX)",
             says="This clips by the largest norm of a rank's parts: add the squares of all."),
        edit("        part *= factor", "        part *= min(1.0, most / part.norm().item())",
             says="Each tensor was clipped by its own norm: the whole gradient has one norm."),
        edit("square = sum(part.square().sum() for part in parts)", "square = parts[0].square().sum()",
             says="The norm is that of the first parts alone."),
        edit("square = sum(part.square()", "square = sum(part.abs()", "square.sqrt().item()", "square.item()",
             says="This is the sum of the absolute values: add the squares, and take the root."),
        edit("square.sqrt().item())", "square.half().sqrt().item())", says="wrong"),
        edit("all_reduce(square)", "reduce(square, 0)", says="rank 1 is wrong"),
        edit("    dist.all_reduce", "    if dist.get_rank() == 0:\n        dist.all_reduce", says="deadlock: ", hangs=True),
        edit("    dist.all_reduce(square)\n", "", "sum(part.square().sum() for part in parts)", """0
    for part in parts:
        own = part.square().sum()
        dist.all_reduce(own)
        square += own""", says=ONE_SUM),
        edit("    dist.all_reduce(square)\n", "", "sum(part.square().sum() for part in parts)", """\
torch.stack([part.square().sum() for part in parts])
    dist.all_reduce(square)
    square = square.sum()""", says="One number is enough: the sum of the squares."),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="18",
    title="Share the state: ZeRO and FSDP",
    predictions=(Prediction("bytes_a_parameter", "bytes"), Prediction("stage_3_traffic", "times")),
    exercises=(SHARDED_STEP, SHARDED_BACKWARD, SHARDED, ACCUMULATE_SHARDED, CLIP_PARTS),
    questions=questions("18"),
)
