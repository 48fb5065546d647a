"""What a learner of lesson 04 is told: for wrong answers, and for right ones in other styles."""

import pytest

from labkit.exercises.catalogue import exercise_named
from labkit.exercises.grade import grade

LESSON = """
from labkit.algorithms import sync_gradients
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters
"""

RIGHT = {
    "sync_in_one, the solution": exercise_named("sync_in_one").solution,
    "sync_in_one, by torch's own helpers": """
def sync_in_one(model):
    grads = [p.grad for p in model.parameters()]
    flat = parameters_to_vector(grads) / world_size
    dist.all_reduce(flat)
    vector_to_parameters(flat, grads)
    for p, g in zip(model.parameters(), grads):
        p.grad = g
""",
    "sync_in_one, by place and by assignment": """
def sync_in_one(model):
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    work = dist.all_reduce(flat, async_op=True)
    work.wait()
    start = 0
    for p in model.parameters():
        p.grad = flat[start:start + p.numel()].reshape(p.shape).div(dist.get_world_size())
        start += p.numel()
    return flat
""",
    "accumulate, the solution": exercise_named("accumulate").solution,
    "accumulate, divided at the end": """
def accumulate(model, batches):
    model.zero_grad()
    for x, y in batches:
        cross_entropy(model(x), y).backward()
    for p in model.parameters():
        p.grad /= len(batches)
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
""",
    "accumulate, one collective": """
def accumulate(model, batches):
    k = len(batches) * world_size
    for x, y in batches:
        (cross_entropy(model(x), y) / k).backward()
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    vector_to_parameters(flat, [p.grad for p in model.parameters()])
    parts = flat.split([p.numel() for p in model.parameters()])
    for p, part in zip(model.parameters(), parts):
        p.grad = part.view_as(p)
""",
}

EACH = "    for p in model.parameters(): "
FLAT = "    flat = torch.cat([p.grad.flatten() for p in model.parameters()])\n"
PARTS = "    parts = flat.split([p.numel() for p in model.parameters()])\n"
BACK = "    for p, part in zip(model.parameters(), parts): p.grad.copy_(part.view_as(p))\n"
WRONG = {
    "sync_in_one: sum": (
        FLAT + "    dist.all_reduce(flat)\n" + PARTS + BACK,
        "This is the sum. Divide it by the number of ranks.",
    ),
    "sync_in_one: divided twice": (
        FLAT + "    flat /= world_size; dist.all_reduce(flat); flat /= world_size\n" + PARTS + BACK,
        "Divide it by the number of ranks, once",
    ),
    "sync_in_one: wrong divisor": (
        FLAT + "    dist.all_reduce(flat); flat /= len(list(model.parameters()))\n" + PARTS + BACK,
        "This is the sum divided by 4.",
    ),
    "sync_in_one: not copied back": (
        FLAT + "    dist.all_reduce(flat); flat /= world_size\n    return flat",
        "must be copied back",
    ),
    "sync_in_one: one call each": (
        "    sync_gradients(model)",
        "every rank is right, but over budget: collective calls on each rank 4, limit 1",
    ),
    "sync_in_one: right on rank 0 alone": (
        FLAT + "    dist.reduce(flat, dst=0)\n"
        "    if dist.get_rank() > 0: return\n    flat /= world_size\n" + PARTS + BACK,
        "rank 1 is wrong",
    ),
    "sync_in_one: one rank does not call": (
        FLAT + "    if dist.get_rank() > 0: dist.all_reduce(flat)\n",
        "deadlock: rank 0 finished the cell",
    ),
    "sync_in_one: gradients lost": (
        "    model.zero_grad()",
        "got      'a parameter without gradient'",
    ),
    "accumulate: not divided by the mini-batches": (
        "    for x, y in batches: cross_entropy(model(x), y).backward()\n    sync_gradients(model)",
        "This is the sum over the mini-batches. Divide each loss by their number.",
    ),
    "accumulate: not divided by the ranks": (
        "    for x, y in batches: (cross_entropy(model(x), y) / len(batches)).backward()\n"
        + EACH + "dist.all_reduce(p.grad)",
        "This is the sum over the ranks.",
    ),
    "accumulate: divided by the ranks twice": (
        "    for x, y in batches: (cross_entropy(model(x), y) / len(batches) / world_size).backward()\n"
        "    sync_gradients(model)",
        "sync_gradients has done it already",
    ),
    "accumulate: not synchronised": (
        "    for x, y in batches: (cross_entropy(model(x), y) / len(batches)).backward()",
        "Each rank has the gradient of its own mini-batches. Synchronise.",
    ),
    "accumulate: zero_grad in the loop": (
        "    for x, y in batches:\n        model.zero_grad()\n"
        "        (cross_entropy(model(x), y) / len(batches)).backward()\n    sync_gradients(model)",
        "although the loss is divided by their number",
    ),
    "accumulate: backward after the loop": (
        "    for x, y in batches: loss = cross_entropy(model(x), y)\n"
        "    loss.backward()\n    sync_gradients(model)",
        "Only the last mini-batch counts",
    ),
    "accumulate: synchronised each time": (
        "    for x, y in batches:\n        (cross_entropy(model(x), y) / len(batches)).backward()\n"
        "        sync_gradients(model)",
        "every rank is right, but over budget: collective calls on each rank 12, limit 4",
    ),
    "accumulate: rank 0 alone": (
        "    for x, y in batches: (cross_entropy(model(x), y) / len(batches)).backward()\n"
        "    if dist.get_rank() == 0: sync_gradients(model)",
        "deadlock: rank 1 finished the cell",
    ),
}  # fmt: skip


def verdict(lab, name, source):
    lab[:].execute(LESSON + source, block=True)
    return grade(lab, exercise_named(name))


@pytest.mark.parametrize("style", RIGHT)
def test_right_in_any_style(labs, style):
    found = verdict(labs(4), style.split(",")[0], RIGHT[style])
    assert found.solved, found.text


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(labs, mistake):
    name, (body, says) = mistake.split(":")[0], WRONG[mistake]
    head = exercise_named(name).stub.splitlines()[0]
    found = verdict(labs(4), name, f"{head}\n{body}\n")
    assert not found.solved and says in found.text, found.text


@pytest.mark.parametrize("name", ["sync_in_one", "accumulate"])
def test_the_stub_is_not_solved_yet(labs, name):
    assert "write" in verdict(labs(4), name, exercise_named(name).stub).text
