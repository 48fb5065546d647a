"""Lesson 02, Sum over all ranks: its prediction, exercises and questions."""

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
    in_place,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch

EXACT = 1e-12
"""Of the largest number: what another order of addition may change in float64, and not what float32 loses."""


DIGITS_LOST = "Digits were lost on the way: keep the dtype of what is given."


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    """Tensors that 2, 3 or 4 ranks cut into equal chunks."""
    n = 12 * int(torch.randint(1, 50, (), generator=generator))
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


def _each_to_each(answers: Answers) -> str:
    """Whether every rank sends to every other one."""
    sent = {(event.rank, *event.peers) for event in answers.trace.events if event.verb == "send"}
    for a in range(answers.size):
        for b in range(answers.size):
            if a != b and (a, b) not in sent:
                return (
                    f"rank {a} sent nothing to rank {b}\nEvery rank exchanges tensors with every other one."
                )
    return ""


TURNS = """\
def sum_by_turns(x):
    total, theirs = x.clone(), torch.empty_like(x)
    for other in range(world_size):
        if other != rank:
            request = dist.isend(x, dst=other)
            dist.recv(theirs, src=other)
            request.wait()
            total += theirs
    return total
"""
SUM_BY_TURNS = Exercise(
    task="An all-reduce from messages: every rank exchanges tensors with every other one, once, and returns "
    "the sum, without changing `x` and without a collective. It is right in a world of two, and wrong in "
    "larger ones. **Find the bug and mend it.**",
    stub=edited(TURNS, "isend(x,", "isend(total,"),
    solution=TURNS,
    why="From the second exchange on `total` has other ranks' numbers in it, which their owners send as "
    "well: they count twice. Each rank has to send what is its own.",
    hints=(
        "Three ranks, one number each: 1, 10, 100. Go through the loop on paper. What does rank 0 send "
        "to rank 2?",
        "Whose numbers are in `total` at the second exchange?",
    ),
    given=_tensors,
    judge=like_solution(EXACT),
    limits=(
        Limit("collectives", lambda arguments: 0, "The collective is what you build here."),
        Limit("messages", lambda a: len(a) * (len(a) - 1), "Each rank sends to each other one, once."),
    ),
    demands=(_each_to_each,),
    uses=("all_reduce_naive",),
    sizes=(2, 3),
    wrong=(
        edit("isend(x,", "isend(total.clone(),",
             says="Numbers count more than once: what a rank sends has those of others in it already."),
        edit("x.clone(), torch.empty_like(x)\n", "x, torch.empty_like(x)\n    x = x.clone()\n",
             says="in a world of 2, every rank is right, but rank 0 changed `x`"),
        edit("return total", "return x", says="That is the rank's own tensor."),
        edit("return total", "return total + x", says="The rank's own tensor counts twice."),
        edit("return total", "return total / world_size", says="That is the mean: an all-reduce only adds."),
        edit("            request.wait()\n", "", says="never waits for its isend"),
        edit("request = dist.isend", "dist.send", "            request.wait()\n", "", says="deadlock: ", hangs=True),
        edit("total += theirs", "total = theirs",
             says="The last tensor that came has replaced the others: add it to them."),
        edit("x.clone()", "x.float()", "empty_like(x)", "empty_like(x.float())", "isend(x,", "isend(x.float(),",
             "return total", "return total.double()", says=DIGITS_LOST),
        body("total = x.clone()\ndist.all_reduce(total)\nreturn total", says="The collective is what you build here."),
        body("""\
total, theirs = x.clone(), torch.empty_like(x)
if rank > 0:
    dist.send(x, dst=0)
    dist.recv(total, src=0)
    return total
for other in range(1, world_size):
    dist.recv(theirs, src=other)
    total += theirs
for other in range(1, world_size):
    dist.send(total, dst=other)
return total""", says="in a world of 3, rank 1 sent nothing to rank 2"),
        body("""\
total, passing = x.clone(), x
for step in range(world_size - 1):
    theirs = torch.empty_like(x)
    request = dist.isend(passing, dst=(rank + 1) % world_size)
    dist.recv(theirs, src=(rank - 1) % world_size)
    request.wait()
    total += theirs
    passing = theirs
return total""", says="Every rank exchanges tensors with every other one."),
        edit("    return", "    for other in range(world_size):\n        if other != rank:\n"
             "            request = dist.isend(x, dst=other)\n            dist.recv(theirs, src=other)\n"
             "            request.wait()\n    return", says="Each rank sends to each other one, once."),
    ),
)  # fmt: skip


def _losses(generator: torch.Generator, size: int) -> Arguments:
    """Rank 0's is the smallest."""
    dtype = torch.float64 if size == 3 else torch.float32
    drawn = 5 * torch.rand(size, dtype=dtype, generator=generator)
    return [(loss.view(1).clone(),) for loss in drawn.sort().values]


ONE_IS_ENOUGH = "One collective is enough: which leaves the sum on every rank?"
BY_HAND = "By hand, go by way of rank 0; or use a collective."
MEAN_LOSS = Exercise(
    task="Each rank has measured a `loss`. Return the mean over all ranks, on every rank, and leave `loss` "
    "as it was. Budget: one collective call with tensors, or $2(R-1)$ messages by hand.",
    stub="""\
def mean_loss(loss):  # a tensor with one element, different on each rank
    ...  # your code
""",
    solution="""\
def mean_loss(loss):
    total = loss.clone()
    dist.all_reduce(total)
    return total / world_size
""",
    why="Every rank calls all_reduce, so every rank has the sum, and each divides it by itself.",
    hints=(
        "A sum over all ranks and a division, both on every rank, with no branch.",
        "dist.all_reduce(x) works in place; world_size says by what to divide.",
    ),
    given=_losses,
    judge=like_solution(1e-6),
    limits=(
        Limit("collectives", lambda arguments: 1, ONE_IS_ENOUGH),
        Limit("messages", lambda arguments: 2 * (len(arguments) - 1), BY_HAND),
    ),
    uses=("all_reduce_naive", "all_reduce_reduce_broadcast"),
    sizes=(2, 3),
    wrong=(
        edit(" / world_size", "", says="That is the sum: divide it by the number of ranks."),
        edit("/ world_size", "/ 3",
             says="That is the sum divided by 3. The next world may have another size: world_size knows it."),
        edit("/ world_size", "/ max(1, world_size - 1)", says="The divisor is one too small."),
        edit("return total / world_size", "return loss",
             says="That is the rank's own loss: nothing came from the others."),
        edit("return total", "return loss",
             says="That is the rank's own loss, divided: the sum did not come here."),
        edit("return total", "return (total + loss)", says="The rank's own loss counts twice.",),
        edit(" / world_size", "", "all_reduce(total)", "broadcast(total, src=0)",
             says="That is rank 0's loss: a broadcast adds nothing up."),
        edit(" / world_size", "", "all_reduce(total)", "all_reduce(total, op=dist.ReduceOp.MAX)",
             says="That is the largest loss, not the mean."),
        edit("all_reduce(total)", "reduce(total, dst=0)", says="in a world of 2, rank 1 is wrong", hangs=True),
        edit("    dist", "    if rank == 0:\n        dist", hangs=True,
             says="deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce"),
        edit("dist.all_reduce(total)", "dist.reduce(total, dst=0)\n    dist.broadcast(total, src=0)",
             says=ONE_IS_ENOUGH),
        edit("dist.all_reduce", "all_reduce_naive", says=BY_HAND),
        edit("loss.clone()", "loss", says="rank 0 changed `loss`, which its caller goes on using: work on a copy"),
        edit("(total)", "(total, async_op=True)",
             says="rank 0 never waits for its asynchronous all_reduce: call wait() on what it returned", hangs=True),
        edit("loss.clone", "los.clone", says="ranks 0-1: NameError: name 'los' is not defined"),
        edit("    dist", "    if rank == 1:\n        raise ValueError('bad')\n    dist", hangs=True,
             says="rank 1 raised an error for which the others wait in vain"),
        edit("loss.clone()", "loss.half()", says=DIGITS_LOST),
        body("return 2.5", says="That is a number of yours, whatever the ranks have measured."),
    ),
)  # fmt: skip


BOTTLENECK = "That rank is a bottleneck. Share its work: every rank is the root of one chunk."
ALL_REDUCE_IN_CHUNKS = Exercise(
    task="Sum `x` over all ranks, in place, with `send` and `recv` alone, so that no rank sends more than "
    "$2(R-1)/R$ of it.",
    stub="""\
def all_reduce_in_chunks(x):  # its length can be divided by world_size
    chunks = x.chunk(world_size)  # a tuple of views: what is written into one is in x
    ...  # your code
""",
    solution="""\
def all_reduce_in_chunks(x):
    for root, chunk in enumerate(x.chunk(world_size)):
        reduce_to(root, chunk)
        broadcast_from(root, chunk)
""",
    why="Every rank is the root of one chunk. It sends R - 1 chunks to the other roots, and its own, summed, "
    "to R - 1 ranks: 2(R - 1) chunks of size 1/R. No all-reduce can do with less.",
    hints=(
        "Rank 0 sends so much because it is the root of all of x. Let every rank be the root of one chunk.",
        "reduce_to(root, chunk) and broadcast_from(root, chunk): every rank, every root, in the same order.",
        "With messages of your own: chunks is a tuple, so chunks[rank] += y fails. Take mine = chunks[rank]; "
        "then mine += y adds in x.",
    ),
    given=_tensors,
    answer=in_place,
    judge=like_solution(EXACT),
    limits=(
        Limit("collectives", lambda arguments: 0,
              "The collective is what you build here: use send and recv."),
        Limit("bytes", lambda a: 2 * (len(a) - 1) / len(a) * a[0][0].nbytes, BOTTLENECK),
    ),
    uses=("all_reduce_naive", "all_reduce_reduce_broadcast", "broadcast_from", "reduce_to"),
    sizes=(2, 3),
    wrong=(
        body("all_reduce_reduce_broadcast(x)", says=BOTTLENECK),
        body("all_reduce_naive(x)", says=BOTTLENECK),
        edit("x.chunk(world_size)", "x.chunk(2)", says=BOTTLENECK),
        body("dist.all_reduce(x)", says="The collective is what you build here: use send and recv."),
        edit("        broadcast_from(root, chunk)\n", "",
             says="Each rank has the sum of its own chunk alone, as after reduce_scatter: what is missing?"),
        edit("        reduce_to(root, chunk)\n", "",
             says="Each chunk is its root's own: nothing was added to it before it was sent to all."),
        edit("broadcast_from(root,", "broadcast_from((root + 1) % world_size,",
             says="The sum of a chunk is with its root: broadcast it from there."),
        edit("        reduce_to(root, chunk)\n", "        own = chunk.clone()\n        reduce_to(root, chunk)\n"
             "        if rank == root:\n            chunk += own\n",
             says="Each chunk has its root's own numbers in it twice."),
        edit("    for root", "    x = x.clone()\n    for root",
             says="x is what it was: write into it; the caller holds x and not what you return."),
        body("reduce_to(0, x)", says="Rank 0 alone has the sum: the others need it, too."),
        edit("        broadcast", "        chunk /= world_size\n        broadcast",
             says="That is the mean: all-reduce only adds."),
        body("""\
chunks, other = x.chunk(world_size), (rank + 1) % world_size
dist.send(chunks[other], dst=other)""", says="deadlock: each waits for another\nrank 0 in send to rank 1", hangs=True),
        edit("        reduce_to(root, chunk)\n        broadcast_from(root, chunk)\n",
             "        half = chunk.float()\n        reduce_to(root, half)\n        broadcast_from(root, half)\n"
             "        chunk.copy_(half)\n", says=DIGITS_LOST),
        edit("x.chunk(world_size)", "x[: len(x) // 2].chunk(world_size)",
             says="Only the first half of x has the sum: go through all of it."),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="02",
    title="Sum over all ranks",
    predictions=(Prediction("messages", "messages"),),
    exercises=(SUM_BY_TURNS, MEAN_LOSS, ALL_REDUCE_IN_CHUNKS),
    questions=questions("02"),
)
