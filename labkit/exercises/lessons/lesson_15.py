"""Lesson 15, Cut the model by layers: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.cuts import equal, fullest, least, wrong_cut
from labkit.exercises.lessons.networks import gradient, linear, normal

SAMPLES, WIDTH = 5, 4
NEIGHBOURS = Limit("collectives", lambda arguments: 0, "Messages between neighbours are enough.")


def _stages(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a stage of its own, an input, and the gradient of the last stage's output."""
    layers = [linear(generator, WIDTH, WIDTH, dtype=torch.float64) for _ in range(size)]
    drawn = [[normal(generator, SAMPLES, WIDTH) for _ in range(2)] for _ in range(size)]
    return [
        (torch.nn.Sequential(layer, torch.nn.Tanh()), *two) for layer, two in zip(layers, drawn, strict=True)
    ]


CHAIN = """\
def chain_step(stage, x, grad):
    if rank > 0:
        x = torch.empty_like(x)
        dist.recv(x, rank - 1)
    x.requires_grad_()
    out = stage(x)
    if rank < world_size - 1:
        dist.send(out.detach(), rank + 1)
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
    out.backward(grad)
    if rank > 0:
        dist.send(x.grad, rank - 1)
"""
CHAIN_STEP = Exercise(
    task="One step, forward and backward, of a chain of stages. `x` is the batch on rank 0, elsewhere a "
    "tensor of the shape that arrives; `grad` is the gradient of the loss by the output, on the last rank. "
    "It runs without an error, and the gradients of the last stage are right. **Find the bug and mend it.**",
    stub=edited(CHAIN, "send(x.grad", "send(grad"),
    solution=CHAIN,
    why="`grad` is the derivative of the loss by this stage's output. The stage before needs the "
    "derivative by its own output, which is this stage's input: x.grad. All layers are of one width here, "
    "so the wrong tensor has the right shape, and nothing complains.",
    hints=(
        "The last stage is right, the one before is not. What did it get, and what does it need?",
        "A stage's output is the next one's input. Where does autograd leave the gradient of the input?",
    ),
    given=_stages,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=like_solution(1e-9),
    limits=(
        NEIGHBOURS,
        Limit(
            "messages",
            lambda arguments: 2 * (len(arguments) - 1),
            "Each boundary is crossed twice: once by an output, once by its gradient.",
        ),
    ),
    wrong=(
        edit(
            "send(x.grad", "send(1.0 * grad",
            says="Each stage hands on the gradient that came to it. The stage before needs that of its own "
            "output, which is your input: x.grad.",
        ),
        edit(
            "out.backward(grad)", "out.backward(torch.ones_like(out))",
            says="Each stage went back with ones, as if the loss were the sum of its outputs: "
            "out.backward(grad).",
        ),
        edit(
            "send(x.grad", "send(out.detach()",
            says="Each stage sends its output back. What goes back is a gradient: x.grad.",
        ),
        edit(
            "(grad)\n", "(grad)\n    if rank:\n        stage.zero_grad()\n",
            says="a parameter without gradient",
        ),
        edit(
            "        dist.send(out.detach(), rank + 1)\n", "",
            "recv(grad, rank + 1)", "recv(grad, rank + 1)\n        dist.send(out.detach(), rank + 1)",
            says="deadlock: ", hangs=True,
        ),
        edit(
            "send(x.grad, rank - 1)", "send(x.grad, rank - 1)\n    if rank == 0:\n"
            "        dist.isend(x.grad, 1).wait",
            says="a message that nobody received",
        ),
    ),
)  # fmt: skip


def _partly_frozen(generator: torch.Generator, size: int) -> Arguments:
    """The same, and how many stages are frozen."""
    frozen = int(torch.randint(1, max(2, size - 1), (), generator=generator))
    given = [(*own, frozen) for own in _stages(generator, size)]
    for rank, (stage, *_) in enumerate(given):
        stage.requires_grad_(rank >= frozen)
    return given


def _transfers(arguments: Arguments) -> int:
    """Activations over each boundary; gradients over those after the first stage that learns."""
    return (len(arguments) - 1) + (len(arguments) - 1 - arguments[0][3])


FINE_TUNE = Exercise(
    task="The first `frozen` stages are trained already: their parameters have `requires_grad` False. Do one "
    "step, forward and backward, and send nothing that nobody needs. `x` is the batch on rank 0, elsewhere "
    "a tensor of the shape that arrives; `grad` is the gradient of the loss by the output, on the last rank. "
    "Leave the gradients in the parameters of the other stages.",
    stub="""\
def fine_tune(stage, x, grad, frozen):
    ...  # your code
""",
    solution="""\
def fine_tune(stage, x, grad, frozen):
    first, last = rank == 0, rank == world_size - 1
    if not first:
        x = torch.empty_like(x)
        dist.recv(x, rank - 1)
    x.requires_grad_(rank > frozen)
    out = stage(x)
    if not last:
        dist.send(out.detach(), rank + 1)
    if rank < frozen:
        return
    if not last:
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
    out.backward(grad)
    if rank > frozen:
        dist.send(x.grad, rank - 1)
""",
    why="Stage `frozen` is the first that learns: it needs the gradient of its output, and nobody needs that "
    "of its input. So the frozen stages do not go back at all, and keep no activations either.",
    hints=(
        "Begin with forward_through and backward_through. Which ranks need a gradient, and from whom?",
        "Ranks below `frozen` are done after the forward part: nothing there asks for a gradient, so there "
        "is no graph to go back through. Rank `frozen` receives a gradient, goes back and sends none: only "
        "ranks after it ask for x.grad.",
    ),
    given=_partly_frozen,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=like_solution(1e-9),
    limits=(
        NEIGHBOURS,
        Limit(
            "messages",
            _transfers,
            "The forward part needs one for each boundary. Gradients have to go back to stage `frozen`, "
            "and no further.",
        ),
    ),
    wrong=(
        body(
            "if rank < frozen:\n    return\nout = stage(x)\nout.backward(grad)",
            says="Each rank used its own x. The input of a stage comes from the rank before.",
        ),
        edit(
            "out.backward(grad)", "out.backward(grad if rank < world_size - 1 else torch.ones_like(out))",
            says="This is the gradient of the sum of the outputs. Go back with `grad`: out.backward(grad).",
        ),
        edit("    if rank < frozen:\n        return", "    return", says="a parameter without gradient"),
        edit(
            "        dist.send(out.detach(), rank + 1)\n", "        pass\n",
            "    out.backward", "        dist.send(out.detach(), rank + 1)\n    out.backward",
            says="deadlock", hangs=True,
        ),
        edit("dist.send(x.grad, rank - 1)", "pass", says="deadlock", hangs=True),
        edit("(grad)\n", "(grad)\n    stage[0].bias.grad *= 2 if rank else 1\n", says="wrong"),
        edit(
            "dist.send(x.grad, rank - 1)", "dist.send(x.grad, rank - 1)\n    elif rank > 0:\n"
            "        dist.isend(torch.zeros_like(x), rank - 1)",
            says="a message that nobody received",
        ),
        edit(
            "(rank > frozen)", "(rank > 0)", "    if rank < frozen:\n        return\n", "",
            "out.backward(grad)\n    if rank > frozen:\n        dist.send(x.grad,",
            "if out.requires_grad:\n        out.backward(grad)\n    if rank > 0:\n"
            "        dist.send(x.grad if x.grad is not None else x.detach(),",
            says="The forward part needs one for each boundary.",
        ),
    ),
)  # fmt: skip


def _sizes(generator: torch.Generator, size: int) -> Arguments:
    """Sizes for which equal numbers of layers are not the best cut."""
    while True:
        many = int(torch.randint(6, 11, (), generator=generator))
        sizes = torch.randint(1, 20, (many,), generator=generator).tolist()
        if fullest(equal(many, size), sizes) > least(sizes, size):
            return [(sizes, size)] * size


def _cut(answers: Answers) -> str:
    """What is wrong with the ranks' cuts: of several best ones any will do, the same on every rank."""
    sizes, ranks = answers.arguments[0]
    for rank, found in enumerate(answers.found):
        problem = wrong_cut(found, sizes, ranks)
        if problem:
            return f"rank {rank} is wrong\n  of {sizes} it made {found}\n{problem}"
    if any(found != answers.found[0] for found in answers.found):
        return f"the ranks differ: rank 0 has {answers.found[0]}; all must cut in the same places"
    return ""


ALONE = "Every rank knows the sizes: each can find the cut alone."
CUT_FOR_MEMORY = Exercise(
    task="`sizes` are the megabytes that each layer needs, whole numbers. Cut the layers, in their order, so "
    "that the fullest rank holds as little as possible. Return the number of layers of each rank, the same "
    "list on every rank, without a message. A rank may get 0 layers, and of several best cuts any one will "
    "do.",
    stub="""\
def cut_for_memory(sizes, ranks):
    ...  # your code
""",
    solution="""\
def cut_for_memory(sizes, ranks):
    for limit in range(max(sizes), sum(sizes) + 1):
        counts, room = [0], limit
        for size in sizes:
            if size > room:
                counts, room = [*counts, 0], limit
            counts[-1] += 1
            room -= size
        if len(counts) <= ranks:
            return counts + [0] * (ranks - len(counts))
""",
    why="Fill each rank up to a limit before the next one begins: no cut needs fewer ranks for that limit. "
    "The first limit for which the ranks suffice is the least. All ranks know the sizes, so all find the "
    "same cut, and need not talk.",
    hints=(
        "Turn it round: if no rank may hold more than so many megabytes, how many ranks are needed? Fill one "
        "after the other.",
        "Begin with a limit of max(sizes) and raise it by 1 until the ranks suffice.",
    ),
    given=_sizes,
    judge=_cut,
    limits=(
        Limit("collectives", lambda arguments: 0, ALONE),
        Limit("messages", lambda arguments: 0, ALONE),
    ),
    wrong=(
        body(
            "return [len(sizes) * (r + 1) // ranks - len(sizes) * r // ranks for r in range(ranks)]",
            says="Equal numbers of layers are not equal numbers of bytes.",
        ),
        body("return [0] * (ranks - 1) + [len(sizes)]", says="MB are enough."),
        edit("counts, room = [0], limit", "counts, room = [-1], limit", says="the numbers add up to"),
        body("return [1] * len(sizes)", says="There are 2 ranks, and "),
        edit("return counts", "return limit, counts", says="A list was expected"),
        edit("return counts", "found = counts", says="Nothing came back: a function without"),
        edit("return counts +", "return counts + [0] * (rank > 0) +", says="rank 1 is wrong"),
        edit(
            "return counts +", "if rank:\n                dist.broadcast(torch.tensor(counts), 0)\n"
            "            return counts +", says="deadlock", hangs=True,
        ),
        edit(
            "return counts + [0] * (ranks - len(counts))",
            "told = torch.tensor(counts + [0] * (ranks - len(counts)))\n            dist.broadcast(told, 0)\n"
            "            return told.tolist()", says=ALONE,
        ),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="15",
    title="Cut the model by layers",
    predictions=(Prediction("ranks_idle", "%"), Prediction("branches_speed_up", "times")),
    exercises=(CHAIN_STEP, FINE_TUNE, CUT_FOR_MEMORY),
    questions=questions("15"),
)
