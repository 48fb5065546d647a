"""Lesson 04, Train in step: its prediction, exercises and questions."""

from __future__ import annotations

import copy
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
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons.networks import gradient, linear

PIXELS, HIDDEN, CLASSES = 6, 5, 3
PARAMETERS = 4
"""Tensors of a network: two layers with weight and bias."""


def _network(generator: torch.Generator) -> torch.nn.Sequential:
    first, last = linear(generator, PIXELS, HIDDEN), linear(generator, HIDDEN, CLASSES)
    made = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    with torch.no_grad():
        for p in made.parameters():
            p /= 2
    return made


def _samples(generator: torch.Generator, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(*shape, PIXELS, generator=generator)
    return x, torch.randint(CLASSES, shape, generator=generator)


def _copies(generator: torch.Generator, size: int) -> list[torch.nn.Module]:
    """A network for each rank, all alike; in p.grad is what an earlier step left there."""
    made = _network(generator)
    left = [torch.randn(p.shape, generator=generator) for p in made.parameters()]
    copies = [copy.deepcopy(made) for _ in range(size)]
    for mine in copies:
        for p, before in zip(mine.parameters(), left, strict=True):
            p.grad = before.clone()
    return copies


def _weights(network: torch.nn.Module) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(network.parameters()).detach()


def _replicas(generator: torch.Generator, size: int) -> Arguments:
    """A network per rank, other weights on each; batch normalisation has buffers beside its weights."""
    given = []
    for _ in range(size):
        norm = torch.nn.BatchNorm1d(HIDDEN)
        for tensor in (norm.weight.data, norm.bias.data, norm.running_mean):
            tensor += torch.randn(HIDDEN, generator=generator)
        norm.num_batches_tracked += int(torch.randint(1, 1000, (), generator=generator))
        given.append((torch.nn.Sequential(linear(generator, PIXELS, HIDDEN), norm),))
    return given


def _state(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.double().flatten() for value in network.state_dict().values()])


DIGITS_LOST = "Digits were lost on the way: keep the dtype of each tensor."
MEAN = "This is the mean over the ranks. Take the weights of rank 0: broadcast them."
INITIAL_WEIGHTS = Exercise(
    task="Give every replica the weights of rank 0, in place. What `model.state_dict()` holds belongs to it: "
    "parameters, and buffers such as the running means of batch normalisation. One collective call for each "
    "of its tensors is enough.",
    stub="""\
def my_sync_initial_weights(model):  # other weights on each rank
    ...  # your code
""",
    solution=algorithm("synchronous_sgd.sync_initial_weights", "my_sync_initial_weights"),
    why="The tensors of a state_dict share their memory with the model, so a broadcast into them is a "
    "broadcast into the model. Buffers are no parameters, and an optimiser never moves them: who forgets "
    "them has replicas that train alike and predict differently.",
    hints=(
        "model.state_dict().values() are the model's own tensors: what is written into one is in the model.",
        "dist.broadcast(tensor, src=0) on every rank, for each of them.",
    ),
    given=_replicas,
    answer=lambda arguments, result: _state(arguments[0]),
    judge=like_solution(0),
    limits=(
        Limit("collectives", lambda arguments: len(arguments[0][0].state_dict()),
              "One broadcast for each tensor is enough."),
    ),
    becomes="sync_initial_weights",
    changes=("model",),
    wrong=(
        edit("model.state_dict().values()", "model.parameters()", "(tensor,", "(tensor.data,",
             says="The parameters are rank 0's, the buffers are not: go through model.state_dict().values()."),
        edit("(tensor,", "(tensor.clone(),", says="These are the rank's own weights: nothing has come from rank 0."),
        edit("src=0", "src=dist.get_world_size() - 1",
             says="These are the last rank's weights. Take those of rank 0: src=0."),
        edit("dist.broadcast(tensor, src=0)", "dist.all_reduce(tensor)\n        tensor.copy_(tensor / world_size)",
             says=MEAN),
        edit("model.state_dict().values()", "model.parameters()",
             "dist.broadcast(tensor, src=0)", "dist.all_reduce(tensor.data)\n        tensor.data /= world_size", says=MEAN),
        edit("dist.broadcast(tensor, src=0)", "tensor.zero_()",
             says="All replicas are alike now, but none has what rank 0 had: broadcast it."),
        edit("model.state_dict()", "model[0].state_dict()",
             says="Only the first layer is rank 0's: go through all that model.state_dict() holds."),
        edit("    for", "    if dist.get_rank() == 0:\n      for", "        dist", "          dist", says="deadlock: ", hangs=True),
        edit("dist.broadcast(tensor, src=0)", "half = tensor.half()\n        dist.broadcast(half, src=0)\n"
             "        tensor.copy_(half)", says=DIGITS_LOST),
        body("from labkit.algorithms import sync_initial_weights as ready\nready(model)",
             says="that is what you shall write"),
    ),
)  # fmt: skip


def _with_gradients(generator: torch.Generator, size: int) -> Arguments:
    copies = _copies(generator, size)
    for mine in copies:
        for p in mine.parameters():
            p.grad = torch.randn(p.shape, generator=generator)
    return [(mine,) for mine in copies]


GRADIENTS = Exercise(
    task="Replace the gradient of every parameter, `p.grad`, by its mean over all ranks, with at most one "
    "collective call for each parameter.",
    stub="def my_sync_gradients(model):  # backward() has run: every parameter has its p.grad\n"
    "    ...  # your code\n",
    solution=algorithm("synchronous_sgd.sync_gradients", "my_sync_gradients"),
    why="all_reduce leaves the sum in p.grad, on every rank; the division makes it the mean of lesson 03. "
    "The optimiser reads p.grad and knows nothing of ranks.",
    hints=(
        "Per parameter one sum over all ranks, then one division. Which collective does that?",
        "dist.all_reduce(p.grad) works in place; dist.get_world_size() says by what to divide.",
    ),
    given=_with_gradients,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=like_solution(1e-6),
    limits=(
        Limit("collectives", lambda arguments: PARAMETERS,
              "One all_reduce for each parameter is enough, and one for all of them is possible."),
    ),
    becomes="sync_gradients",
    wrong=(
        edit("        p.grad /= dist.get_world_size()\n", "",
             says="This is the sum. Divide it by the number of ranks."),
        edit("dist.get_world_size()", "4",
             says="This is the sum divided by 4. Divide it by the number of ranks, once: dist.get_world_size()."),
        edit("(p.grad)", "(p.grad, op=dist.ReduceOp.AVG)",
             says="This is the mean, divided once more. Divide it by the number of ranks, once: dist.get_world_size()."),
        edit("(p.grad)", "(p.grad.clone())", "p.grad /= dist.get_world_size()", "p.grad",
             says="The rank's own gradients are still in p.grad. What all_reduce returned into a new tensor "
             "must be copied back."),
        edit("(p.grad)", "(p.grad.clone())",
             says="These are the rank's own gradients, divided: the sum went into a copy."),
        edit("in model.parameters()", "in list(model.parameters())[:2]",
             says="Only the first layer has the mean: go through all of model.parameters()."),
        edit("in model.parameters()", "in list(model.parameters())[::2]",
             says="The biases still have the rank's own gradients: go through all of model.parameters()."),
        edit("dist.all_reduce(p.grad)", "dist.broadcast(p.grad, src=0)", "        p.grad /= dist.get_world_size()\n", "",
             says="These are rank 0's gradients: add those of all ranks."),
        edit("get_world_size()\n", "get_world_size()\n        p.data -= 0.1 * p.grad\n",
             says="rank 0 changed `model`, which its caller goes on using"),
        edit("(p.grad)", "(p.grad, async_op=True)",
             says="rank 0 never waits for its asynchronous all_reduce: call wait()", hangs=True),
        edit("all_reduce(p.grad)", "reduce(p.grad, dst=0)", says="in a world of 2, rank 1 is wrong", hangs=True),
        edit("        dist", "        if rank > 0:\n          dist", hangs=True,
             says="deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce"),
        body("model.zero_grad()", says="The parameters have no p.grad any more: write the mean into it."),
        edit("dist.all_reduce(p.grad)", "half = p.grad.half()\n        dist.all_reduce(half)\n        p.grad.copy_(half)",
             says=DIGITS_LOST),
        body("from labkit.algorithms import sync_gradients as ready\nready(model)", says="that is what you shall write"),
    ),
)  # fmt: skip


SUMMED = 3
"""The size of the world in which `sync` is given, and adds up: elsewhere it is what the stub says."""


def _add_up(model: torch.nn.Module) -> None:
    for p in model.parameters():
        dist.all_reduce(p.grad)


def _epoch(generator: torch.Generator, size: int) -> Arguments:
    """The last mini-batch is smaller. In p.grad is something already; in a world of 4 there is momentum."""
    copies, given = _copies(generator, size), []
    number, batch, more = torch.randint(1, 1000, (3,), generator=generator).tolist()
    batch = 3 + batch % 3
    count = 2 * batch + 1 + more % (batch - 1)
    rate = 0.3 + 0.4 * torch.rand((), generator=generator).item()
    for mine in copies:
        optimizer = torch.optim.SGD(mine.parameters(), lr=rate, momentum=0.9 * (size == 4))
        x, y = _samples(generator, count)
        given.append((mine, optimizer, x, y, batch, number, *[_add_up] * (size == SUMMED)))
    return given


def _after_epoch(arguments: tuple, result: Any) -> Any:
    """The weights, the losses, and how many of those are tensors."""
    told = result if isinstance(result, (list, tuple)) else []
    tensors = sum(map(torch.is_tensor, told))
    weights = _weights(arguments[0])
    return torch.cat([weights, weights.new_tensor([*map(float, told), *[tensors] * (tensors > 0)])])


ONE_SYNC = "One sync for each mini-batch is enough."
ALONE = "Each rank has trained alone: sync(model) belongs between backward() and step()."
TRAIN_EPOCH = Exercise(
    task="The loop of one process, plus one line: go once through the samples in the given order, "
    "`batch_size` at a time, and for each mini-batch do (4), (5) with one call of `sync(model)`, and (6). In "
    "`p.grad` may be what an earlier step left there. Return the losses of the steps, as a list of numbers.",
    stub="""\
def my_train_epoch(model, optimizer, x, y, batch_size, epoch, sync=sync_gradients):
    losses = []
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(batch_size):
        ...  # your code
    return losses
""",
    solution=algorithm("synchronous_sgd.train_epoch", "my_train_epoch"),
    why="Between backward() and step() stands the one line that makes one network of many. The permutation "
    "is drawn from the epoch's number, so it is the same on every rank, and another in each epoch.",
    hints=(
        "x[batch], y[batch] are the mini-batch. Begin as for one process: zero_grad, loss, backward.",
        "sync(model) after backward, before optimizer.step(). Then losses.append(loss.item()).",
    ),
    given=_epoch,
    answer=_after_epoch,
    judge=like_solution(),
    limits=(
        Limit("collectives", lambda a: PARAMETERS * -(-len(a[0][2]) // a[0][4]), ONE_SYNC),
    ),
    uses=("sync_gradients",),
    becomes="train_epoch",
    changes=("model", "optimizer"),
    wrong=(
        edit("        sync(model)\n", "", says=ALONE),
        edit("        sync(model)\n        optimizer.step()\n", "        optimizer.step()\n        sync(model)\n",
             says=ALONE),
        edit("        optimizer.zero_grad()\n", "", "    for", "    optimizer.zero_grad()\n    for",
             says="The gradients of earlier mini-batches are in there: begin each step with optimizer.zero_grad()."),
        edit("        optimizer.zero_grad()\n", "", "step()\n", "step()\n        optimizer.zero_grad()\n",
             says="What was in p.grad before the epoch is in its first step: begin each step with "
             "optimizer.zero_grad()."),
        edit("order.split", "torch.arange(len(x)).split",
             says="The samples were taken as they lie. `batch` holds the places of this mini-batch: x[batch]."),
        edit("        sync(model)", "        sync_gradients(model)",
             says="Call `sync(model)`, the function that is given. Here it adds up; sync_gradients takes the mean."),
        edit("loss.item()", "loss",
             says="The losses are tensors, each with the graph of its step. Return numbers: loss.item()."),
        edit("    return losses\n", "",
             says="The weights are right, the losses are not: append loss.item() in each step, and return them."),
        edit("        optimizer.step()\n", "",
             says="The weights are as they were: after each sync(model) comes optimizer.step()."),
        edit("        optimizer.step()\n", "        with torch.no_grad():\n            for p in model.parameters():\n"
             "                p -= optimizer.param_groups[0]['lr'] * p.grad\n",
             says="The weights were moved by hand. optimizer.step() knows more: here the optimiser has momentum."),
        edit("        optimizer.zero_grad()", "        if len(batch) < batch_size:\n            break\n"
             "        optimizer.zero_grad()",
             says="The last mini-batch is smaller, and belongs to the epoch, too."),
        edit("manual_seed(epoch)", "manual_seed(0)",
             says="The order is the same in every epoch: draw it from the epoch's number."),
        edit("manual_seed(epoch)", "manual_seed(epoch + rank)",
             says="Each rank has an order of its own: keep the line that draws it."),
        edit("        sync(model)\n", "        sync(model)\n        sync(model)\n", says=ONE_SYNC),
        edit("        losses.append", "        dist.all_reduce(loss.detach().clone())\n        losses.append", says=ONE_SYNC),
        edit("        sync(model)", "        if rank == 0:\n            sync(model)", hangs=True,
             says="deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce"),
        body("from labkit.algorithms import train_epoch as ready\n"
             "return ready(model, optimizer, x, y, batch_size, epoch, sync)", says="that is what you shall write"),
    ),
)  # fmt: skip


def _one_batch(generator: torch.Generator, size: int) -> Arguments:
    """Adam has taken a step. It is not linear in the gradient: a mean of steps is no step along the mean.

    With so large an `eps` it does not hide a factor either.
    """
    given = []
    for mine in _copies(generator, size):
        optimizer = torch.optim.Adam(mine.parameters(), lr=0.5, eps=0.1)
        optimizer.step()
        given.append((mine, optimizer, *_samples(generator, 4)))
    return given


STEP = """\
def mend_the_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    sync_gradients(model)
    optimizer.step()
"""
MEND_THE_STEP = Exercise(
    task="This step is to take the mean over all ranks. It runs without an error, its loss falls, and after "
    "it the replicas differ. **Find the bug and mend it**, with at most one collective call for each "
    "parameter, and one for the loss. Only the weights are checked, not what the function returns.",
    stub=edited(STEP, "    loss.backward()\n    sync_gradients(model)\n", """\
    with torch.no_grad():
        dist.all_reduce(loss)
        loss /= dist.get_world_size()  # the mean over all ranks
    loss.backward()
"""),
    solution=STEP,
    why="The loss is one number. Its mean says nothing about how the other ranks' losses change with the "
    "weights: backward() goes through this rank's graph alone. What has to be averaged is the gradient.",
    hints=(
        "Through whose samples does backward() go? Does it reach another rank's?",
        "Leave the loss alone. Between backward() and step(): sync_gradients(model).",
    ),
    given=_one_batch,
    answer=lambda arguments, result: _weights(arguments[0]),
    judge=like_solution(),
    limits=(
        Limit("collectives", lambda arguments: PARAMETERS + 1,
              "One all_reduce for each parameter, and one for the loss if you want to show it."),
    ),
    uses=("sync_gradients",),
    changes=("model", "optimizer"),
    wrong=(
        edit("    sync_gradients(model)\n", "    dist.all_reduce(loss.detach())\n",
             says="Each rank has stepped with its own gradient. The mean of the losses is a number, and backward() "
             "goes through this rank's samples only: average the gradients."),
        edit("loss.backward()\n    sync_gradients(model)\n", "(loss / world_size).backward()\n",
             says="Each rank has stepped with its own gradient, divided by the number of ranks: add them up first."),
        edit("sync_gradients(model)", "for p in model.parameters():\n        dist.all_reduce(p.grad)",
             says="This is a step along the sum of the gradients. Divide it by the number of ranks."),
        edit("loss.backward()", "(loss / world_size).backward()",
             says="The mean gradient was divided by the number of ranks once more: sync_gradients divides already."),
        edit("    sync_gradients(model)\n", "", "step()\n",
             "step()\n    for p in model.parameters():\n        dist.all_reduce(p.data)\n        p.data /= world_size\n",
             says="Each rank has stepped alone, and then the weights were averaged. Only for plain SGD that is the "
             "same: average the gradients, before optimizer.step()."),
        edit("    sync_gradients(model)\n", "", "step()\n",
             "step()\n    for p in model.parameters():\n        dist.broadcast(p.data, src=0)\n",
             says="Rank 0 has stepped alone, and all have its weights: what the others' samples say is lost."),
        edit("    optimizer.step()\n", "", says="The weights are as they were: optimizer.step() comes last."),
        edit("    optimizer.zero_grad()\n", "",
             says="What an earlier step left in p.grad is in this one: begin with optimizer.zero_grad()."),
        edit("    loss.backward()\n    sync_gradients(model)", "    sync_gradients(model)\n    loss.backward()",
             says="in a world of 2, rank"),
        edit("optimizer.step()", "torch.optim.SGD(model.parameters(), lr=0.5).step()",
             says="This is a step of another optimiser: call step() of the one that is given."),
        edit("    optimizer.step", "    sync_gradients(model)\n    optimizer.step",
             says="One all_reduce for each parameter, and one for the loss if you want to show it."),
        edit("    sync", "    if rank == 0:\n        sync", hangs=True,
             says="deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce"),
    ),
)  # fmt: skip


SAMPLES = 64
MEMORY = 8_000
"""Bytes: the graph of one mini-batch of so many samples fits, that of two does not."""


def _with_batches(generator: torch.Generator, size: int) -> Arguments:
    """In p.grad is what an earlier step left there. No number of mini-batches is that of all worlds."""
    copies = _copies(generator, size)
    many = 3 + size + int(torch.randint(2, (), generator=generator))
    drawn = [_samples(generator, many, SAMPLES) for _ in range(size)]
    return [(mine, list(zip(x, y, strict=True))) for mine, (x, y) in zip(copies, drawn, strict=True)]


ONE_GRAPH = "That is the graph of more than one mini-batch. Call backward() for each: it frees the graph."
SYNC_ONCE = "One synchronisation is one all_reduce per parameter. Add the mini-batches up first, then synchronise once."
ACCUMULATE = Exercise(
    task="The batch that you want does not fit into memory. `batches` is a list of mini-batches `(x, y)` of "
    "one size; in `p.grad` is what the last step left there. Leave in `p.grad` the gradient of the mean loss "
    "over all mini-batches of all ranks, and synchronise once. Never hold the graph of more than one "
    "mini-batch: what its forward pass keeps for `backward()`.",
    stub="def accumulate(model, batches):\n    ...  # your code\n",
    solution="""\
def accumulate(model, batches):
    model.zero_grad()
    for x, y in batches:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        (loss / len(batches)).backward()
    sync_gradients(model)
""",
    why="backward() adds to p.grad, so a rank can sum up as many mini-batches as it likes before it talks. "
    "The batch is then larger, and communication per sample smaller; DistributedDataParallel leaves "
    "its own synchronisation out inside of no_sync().",
    hints=(
        "backward() adds to what is in p.grad. Call it for each mini-batch, without zero_grad in between.",
        "The sum of the gradients of k mean losses is k times the gradient that you want. Call "
        "sync_gradients once, after the last backward().",
    ),
    given=_with_batches,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=like_solution(),
    limits=(
        Limit("collectives", lambda arguments: PARAMETERS, SYNC_ONCE),
        Limit("memory", lambda arguments: MEMORY, ONE_GRAPH),
    ),
    uses=("sync_gradients",),
    wrong=(
        edit(" / len(batches)", "", says="This is the sum over the mini-batches. Divide each loss by their number."),
        edit("sync_gradients(model)", "for p in model.parameters():\n        dist.all_reduce(p.grad)",
             says="This is the sum over the ranks. Divide by their number, as sync_gradients does."),
        edit("len(batches)", "(len(batches) * world_size)",
             says="This is divided by the number of ranks twice: sync_gradients has done it already."),
        edit("    sync_gradients(model)\n", "",
             says="Each rank has the gradient of its own mini-batches. Synchronise."),
        edit("sync_gradients(model)", "for p in model.parameters():\n        dist.broadcast(p.grad, src=0)",
             says="This is the gradient of rank 0's mini-batches: take the mean over the ranks."),
        edit("        (loss", "        model.zero_grad()\n        (loss",
             says="Only the last mini-batch counts, although the loss is divided by their number: is there a "
             "zero_grad in the loop, or a backward() after it?"),
        edit("        (loss / len(batches)).backward()", "    loss.backward()",
             says="Only the last mini-batch counts: is there a zero_grad in the loop, or a backward() after it?"),
        edit("    model.zero_grad()\n", "",
             says="What the last step left in p.grad is still in there: begin with model.zero_grad()."),
        edit("in batches:", "in batches[::2]:", says="Only every other mini-batch counts: go through all of them."),
        edit("len(batches)", "6", says="The number of mini-batches is not always 6: len(batches) knows it."),
        edit("(model)\n", "(model)\n    for p in model.parameters():\n        p.data -= 0.1 * p.grad\n",
             says="rank 0 changed `model`, which its caller goes on using"),
        edit("for x, y in batches:", "many = len(batches)\n    while batches:\n        x, y = batches.pop()",
             "len(batches)", "many", says="rank 0 changed `batches`, which its caller goes on using"),
        body("""\
model.zero_grad()
x, y = (torch.cat(part) for part in zip(*batches))
torch.nn.functional.cross_entropy(model(x), y).backward()
sync_gradients(model)""", says=ONE_GRAPH),
        body("""\
model.zero_grad()
(sum(torch.nn.functional.cross_entropy(model(x), y) for x, y in batches) / len(batches)).backward()
sync_gradients(model)""", says=ONE_GRAPH),
        edit("    sync_gradients", "        sync_gradients", says=SYNC_ONCE),
        edit("    sync", "    if rank == 0:\n        sync", hangs=True,
             says="deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce"),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="04",
    title="Train in step: synchronous SGD",
    predictions=(Prediction("weights_apart", "weights"),),
    exercises=(INITIAL_WEIGHTS, GRADIENTS, TRAIN_EPOCH, MEND_THE_STEP, ACCUMULATE),
    questions=questions("04"),
)
