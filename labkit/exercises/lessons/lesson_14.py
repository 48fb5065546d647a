"""Lesson 14, Talk less: its prediction, exercises and questions."""

from __future__ import annotations

import copy
from typing import Any

from labkit.exercises.describe import (
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
from labkit.exercises.lessons.networks import linear

SAMPLES, PIXELS, HIDDEN, CLASSES = 4, 6, 5, 3


def _trainings(generator: torch.Generator, size: int) -> Arguments:
    """A network, the same on all ranks, an optimiser with momentum, batches of each rank's own, and N.

    No N is right in all worlds, and there are gradients from before.
    """
    rounds, more = torch.randint(2, 4, (2,), generator=generator).tolist()
    n = {2: 3, 3: 2}.get(size, more)
    rate, momentum = (0.1 + 0.2 * torch.rand(2, generator=generator)).tolist()
    layers = [linear(generator, *of, dtype=torch.float64) for of in ((PIXELS, HIDDEN), (HIDDEN, CLASSES))]
    network, given = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1]), []
    for _ in range(size):
        model, shape = copy.deepcopy(network), (rounds * n, SAMPLES)
        x = torch.randn(*shape, PIXELS, generator=generator, dtype=torch.float64)
        y = torch.randint(CLASSES, shape, generator=generator)
        for p in model.parameters():
            p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
        given.append((model, optimizer, list(zip(x, y, strict=True)), n))
    return given


NEVER = "The ranks never meet: these are each rank's own weights."
EVERY_STEP = (
    "You average in every step, be it gradients or weights. Here the weights are averaged, every N steps."
)
FLAT = "One flat tensor, every N batches."
STEP = "        optimizer.step()\n"
COPY_BACK = "                p.data.copy_(mean.view_as(p))\n"
LOCAL_STEPS = Exercise(
    task="Each rank trains `model` with `optimizer` on its own `batches`, a list of `(x, y)`, with the "
    "cross-entropy as loss. After every `N` batches all ranks replace their weights by the mean over the "
    "ranks, with one collective call each time. The number of batches is a multiple of `N`. The parameters "
    "may hold gradients from before: they do not count.",
    stub="""\
def my_local_steps(model, optimizer, batches, N):
    ...  # your code
""",
    solution="""\
def my_local_steps(model, optimizer, batches, N):
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step % N == 0:
            weights = torch.cat([p.detach().flatten() for p in model.parameters()])
            dist.all_reduce(weights)
            weights /= dist.get_world_size()
            sizes = [p.numel() for p in model.parameters()]
            for p, mean in zip(model.parameters(), weights.split(sizes)):
                p.data.copy_(mean.view_as(p))
""",
    why="Between two averages a rank needs nobody. With N = 1 it is synchronous SGD: the mean of the weights "
    "after one step from the same place is a step along the mean gradient.",
    hints=(
        "The loop is that of one process. Count the steps; when the count is a multiple of N, average.",
        "As in lesson 04's exercise: one flat tensor of all p.data, one all_reduce, the division, and copy "
        "the parts back into p.data.",
    ),
    given=_trainings,
    answer=lambda arguments, result: torch.nn.utils.parameters_to_vector(arguments[0].parameters()).detach(),
    judge=like_solution(1e-9),
    limits=(Limit("collectives", lambda arguments: len(arguments[0][2]) // arguments[0][3], FLAT),),
    becomes="local_steps",
    changes=("model", "optimizer"),
    wrong=(
        edit("step % N == 0", "step == 0", says=NEVER),
        edit("p.data.copy_(mean", "p = (mean", says=NEVER),
        edit("step % N == 0", "step == len(batches)",
             says="The ranks meet once, at the end: average after every N batches."),
        edit("step % N == 0", "step % N == 0 and step < len(batches)",
             says="The last average is missing: count from 1, so that the N-th batch is a multiple of N."),
        edit("(batches, 1)", "(batches)",
             says="You average after the first of N batches: count from 1, and average after the N-th."),
        edit("step % N", "step % 2", says="This averages after every second batch, whatever N is."),
        edit("            weights /= dist.get_world_size()\n", "",
             says="This is the sum of the weights. Divide it by the number of ranks."),
        edit("all_reduce(weights)", "reduce(weights, 0)",
             says="Only rank 0 has the mean: reduce gives the sum to one rank, all_reduce to all."),
        edit(STEP, "        for p in model.parameters():\n            dist.all_reduce(p.grad)\n"
             "            p.grad /= dist.get_world_size()\n" + STEP, "step % N == 0", "step == 0",
             says=EVERY_STEP),
        edit(STEP, "", COPY_BACK, COPY_BACK + STEP,
             says="The mean is taken before the N-th step, and that step takes the ranks apart again."),
        edit("        optimizer.zero_grad()\n", "",
             says="Gradients add up: call optimizer.zero_grad() before each backward pass."),
        edit("        optimizer.zero_grad()\n", "", STEP, STEP + "        optimizer.zero_grad()\n",
             says="The gradients from before are in the first step: zero_grad comes before backward."),
        edit("p.detach().flatten()", "p.detach().flatten().float()",
             says="The means are right to float32 only: leave the weights in float64."),
        edit("enumerate(batches, 1)", "enumerate(batches[:N], 1)",
             says="These are the weights after N batches: go on with the others."),
        body("N", says="Nothing was trained: the weights are those of the start."),
        edit("step % N == 0", "step % N == 0 and rank > 0", hangs=True,
             says="deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce"),
        edit("            dist.all_reduce(weights)\n", "            for part in weights.split(1):\n"
             "                dist.all_reduce(part)\n", says=FLAT),
        edit("step % N == 0", "True", says=EVERY_STEP),
    ),
)  # fmt: skip


def _with_residuals(generator: torch.Generator, size: int) -> Arguments:
    """A gradient, and a residual whose largest numbers lie elsewhere and change what is sent.

    No k is right in all worlds. One number is among the largest on every rank, so that ranks' places meet.
    """
    n, more = (int(torch.randint(*of, (), generator=generator)) for of in ((60, 90), (0, 2)))
    k, given, common = size + 2 + more, [], int(torch.randint(n, (), generator=generator))
    for _ in range(size):
        gradient, residual = torch.randn(2, n, generator=generator, dtype=torch.float64)
        residual[gradient.abs().argsort()[: 2 * k]] *= 9
        gradient[common] = 50 + 9 * torch.rand((), generator=generator)
        given.append((gradient, residual, k))
    return given


def _mean_and_residual(arguments: tuple, result: Any) -> Any:
    residual = arguments[1]
    alike = torch.is_tensor(result) and (result.shape, result.dtype) == (residual.shape, residual.dtype)
    return torch.cat([result, residual]) if alike else result


def _bytes(arguments: Arguments) -> int:
    """Of k numbers, and of k places that are int64."""
    return 16 * arguments[0][2]


CHOOSE = "places = residual.abs().topk(k).indices"
TAKE = "values = residual[places]"
LEAST_FIRST = """\
    residual += gradient
    places = residual.abs().topk(k).indices
    values = residual[places]
"""
TOP = f"""\
def top_k_mean(gradient, residual, k):
{LEAST_FIRST}    residual[places] = 0
    every_place = [torch.empty_like(places) for _ in range(dist.get_world_size())]
    every_value = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(every_place, places)
    dist.all_gather(every_value, values)
    total = torch.zeros_like(gradient)
    total.index_add_(0, torch.cat(every_place), torch.cat(every_value))
    return total / dist.get_world_size()
"""
TOP_K = Exercise(
    task="Each rank sends only the `k` numbers of its gradient that are largest, with their places; what it "
    "does not send it shall keep in `residual`, and send later. The program returns the mean over the ranks, "
    "and changes `residual` in place. It runs without an error, and trains no better than without a "
    "residual. **Find the bug and mend it**, with at most two collective calls.",
    stub=edited(TOP, LEAST_FIRST, """\
    places = gradient.abs().topk(k).indices
    values = gradient[places]
    residual += gradient
"""),
    solution=TOP,
    why="The residual was filled and never sent: what is sent came from the new gradient alone, and setting "
    "residual[places] to 0 threw away what had been kept there. Choose and send from the sum of both. Then "
    "what was sent and what is left always add up to all gradients there were.",
    hints=(
        "Follow one number of the gradient that is small, but has the same sign in each step. When is "
        "it sent?",
        "Add first, then choose: the largest of residual + gradient, and send those.",
    ),
    given=_with_residuals,
    answer=_mean_and_residual,
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: 2, "One for the places, one for the numbers."),
        Limit("handed", _bytes, "Only k numbers and their places may travel, not the rest."),
    ),
    becomes="mean_of_largest",
    changes=("residual",),
    wrong=(
        edit(CHOOSE, CHOOSE.replace("residual", "gradient"), TAKE, TAKE.replace("residual", "gradient"),
             says="What is kept is never sent: the numbers that travel come from the new gradient alone."),
        edit(CHOOSE, CHOOSE.replace("residual", "gradient"),
             says="The places are chosen by the new gradient alone, so a number that is always small never travels."),
        edit(TAKE, TAKE.replace("residual", "gradient"),
             says="The places are right, but the numbers sent are the new gradient's: what was kept there is lost."),
        edit("    residual[places] = 0\n", "",
             says="What was sent stays in the residual, too, and would be sent again: set it to 0 there."),
        edit("    residual += gradient", "    residual = residual + gradient",
             says="`residual` is as it was: change it in place, residual += gradient."),
        edit("    residual += gradient", "    residual.copy_(gradient)",
             says="What was kept is thrown away: add the new gradient to it."),
        edit("return total / dist.get_world_size()", "return total",
             says="This is the sum. Divide it by the number of ranks."),
        edit("residual.abs().topk", "residual.topk",
             says="Numbers below zero are never sent: the largest are those of the largest size, abs()."),
        edit("topk(k)", "topk(5)", says="This sends 5 numbers, whatever k is."),
        edit(TAKE, f"{TAKE}.float().double()", says="The numbers sent are right to float32 only."),
        edit("    total.index_add_(0, torch.cat(every_place), torch.cat(every_value))\n",
             "    for at, sent in zip(every_place, every_value):\n        total[at] = sent\n",
             says="Where two ranks send the same place, only one counts: the numbers there add up."),
        edit("    return total /", "    total[places] = values\n    return total /",
             says="The rank's own numbers took the place of the sums."),
        edit("    every_place = [", "    if rank == 0:\n        return gradient\n    every_place = [", hangs=True,
             says="deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_gather"),
        body("""\
residual += gradient
places = residual.abs().topk(k).indices
sent = torch.zeros_like(residual)
sent[places] = residual[places]
residual[places] = 0
dist.all_reduce(sent)
return sent / world_size""", says="Only k numbers and their places may travel, not the rest."),
        edit("    total.index", "    dist.all_reduce(total)\n    total.index", says="One for the places, one for the numbers."),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="14",
    title="Talk less",
    predictions=(Prediction("points_lost", "percentage points"),),
    exercises=(LOCAL_STEPS, TOP_K),
    questions=questions("14"),
)
