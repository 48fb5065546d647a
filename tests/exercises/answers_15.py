"""Answers to the exercises of lesson 15."""

UP = """\
if rank > 0:
    x = torch.empty_like(x)
    dist.recv(x, rank - 1)
x.requires_grad_(rank > frozen)
out = stage(x)
if rank < world_size - 1:
    dist.send(out.detach(), rank + 1)
"""
DOWN = """\
if rank < frozen:
    return
if rank < world_size - 1:
    grad = torch.empty_like(out)
    dist.recv(grad, rank + 1)
out.backward(grad)
if rank > frozen:
    dist.send(x.grad, rank - 1)
"""
SEND = "if rank < world_size - 1:\n    dist.send(out.detach(), rank + 1)\n"
FILL = """\
def needed(limit):
    counts, room = [0], limit
    for size in sizes:
        if size > room:
            counts.append(0)
            room = limit
        counts[-1] += 1
        room -= size
    return counts
low = max(sizes)
while len(needed(low)) > ranks:
    low += 1
found = needed(low) + [0] * (ranks - len(needed(low)))
"""
EQUAL = "equal = [len(sizes) * (r + 1) // ranks - len(sizes) * r // ranks for r in range(ranks)]\n"
CHAIN = """\
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
    dist.send(x.grad, rank - 1)"""
WRONG = {
    "chain_step": {
        "handed on": (
            CHAIN.replace("dist.send(x.grad", "dist.send(1.0 * grad"),
            "Each stage hands on the gradient that came",
        ),
        "ones": (
            CHAIN.replace("out.backward(grad)", "out.backward(torch.ones_like(out))"),
            "Each stage went back with ones",
        ),
        "the output": (CHAIN.replace("dist.send(x.grad", "dist.send(out.detach()"), "rank 0 is wrong"),
        "only rank 0 right": (
            CHAIN.replace("out.backward(grad)", "out.backward(grad)\nif rank:\n    stage.zero_grad()"),
            "a parameter without gradient",
        ),
        "too early: deadlock": (
            CHAIN.replace(
                "    dist.send(out.detach(), rank + 1)\n    grad = torch.empty_like(out)\n"
                "    dist.recv(grad, rank + 1)\n",
                "    grad = torch.empty_like(out)\n    dist.recv(grad, rank + 1)\n"
                "    dist.send(out.detach(), rank + 1)\n",
            ),
            "deadlock: ",
        ),
        "lost message": (
            CHAIN.replace("if rank > 0:\n    dist.send(x.grad", "if rank > 0:\n    dist.isend(x.grad.clone()")
            + "\nif rank == 0:\n    dist.isend(x.grad, 1).wait",
            "a message that nobody received",
        ),
        "over budget": ("dist.barrier()\n" + CHAIN, "over budget: collective calls on each rank 1, limit 0"),
    },
    "fine_tune": {
        "own input": (
            "if rank < frozen:\n    return\nout = stage(x)\nout.backward(grad)",
            "Each rank used its own x.",
        ),
        "not this gradient": (
            UP + DOWN.replace("out.backward(grad)", "out.backward(grad if rank < world_size - 1 else "
            "torch.ones_like(out))"),
            "This is the gradient of the sum of the outputs.",
        ),
        "no gradient": (UP, "got      'a parameter without gradient'"),
        "deadlock": (UP.replace(SEND, "") + DOWN.replace("out.backward", SEND + "out.backward"), "deadlock"),
        "only rank 0 right": (
            UP + DOWN + "stage[0].bias.grad *= 2 if rank else 1",
            "is wrong",
        ),
        "nobody sends it back": (
            UP + DOWN.replace("if rank > frozen", "if rank > world_size"),
            "finished the cell, and others wait for it",
        ),
        "sent to a frozen stage": (
            UP + DOWN.replace("    dist.send(x.grad, rank - 1)", "    dist.send(x.grad, rank - 1)\n"
            "elif rank > 0:\n    dist.isend(torch.zeros_like(x), rank - 1)"),
            "a message that nobody received",
        ),
        "over budget, all the way down": (
            UP.replace("rank > frozen", "rank > 0")
            + DOWN.replace("if rank < frozen:\n    return\n", "").replace("rank > frozen", "rank > 0")
            .replace("out.backward(grad)", "if out.requires_grad:\n    out.backward(grad)")
            .replace("dist.send(x.grad,", "dist.send(x.grad if x.grad is not None else x.detach(),"),
            "over budget: messages in all 2, limit 1\nThe forward part needs one for each boundary.",
        ),
        "over budget, collective": (
            UP + DOWN.replace("    return", "    return dist.barrier()") + "dist.barrier()",
            "over budget: collective calls on each rank 1, limit 0\nMessages between neighbours are enough.",
        ),
    },
    "cut_for_memory": {
        "equal numbers": (EQUAL + "return equal", "Equal numbers of layers are not equal numbers of bytes."),
        "all on the last": (
            "return [0] * (ranks - 1) + [len(sizes)]",
            "in a world of 2, rank 0 is wrong",
        ),
        "one too few": (FILL + "found[0] -= 1\nreturn found", "the numbers add up to"),
        "a number for each layer": ("return [1] * len(sizes)", "There are 2 ranks, and "),
        "the cuts, not the counts": (FILL + "return low", "A list was expected"),
        "nothing returned": (FILL, "Nothing came back: a function without"),
        "only rank 0 right": (
            FILL + "return found if rank == 0 else [len(sizes)] + [0] * (ranks - 1)",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            FILL + "if rank:\n    dist.broadcast(torch.tensor(found), 0)\nreturn found",
            "deadlock",
        ),
        "over budget, rank 0 tells": (
            FILL + "told = torch.tensor(found)\ndist.broadcast(told, 0)\nreturn told.tolist()",
            "over budget: collective calls on each rank 1, limit 0\nEvery rank knows the sizes",
        ),
    },
}  # fmt: skip

RIGHT = {
    "chain_step": {
        "by torch.autograd.grad": CHAIN.replace(
            "out.backward(grad)",
            "of_x, *others = torch.autograd.grad(out, [x, *stage.parameters()], grad)\n"
            "for p, g in zip(stage.parameters(), others):\n    p.grad = g",
        ).replace("x.grad", "of_x"),
        "as the lesson does": """\
from labkit.algorithms import backward_through, forward_through
x, out = forward_through(stage, x, world_size)
backward_through(x, out if rank < world_size - 1 else (out * grad).sum(), world_size)""",
    },
    "fine_tune": {
        "by autograd.grad": UP
        + """\
if rank < frozen:
    return
if rank < world_size - 1:
    grad = torch.empty_like(out)
    dist.recv(grad, rank + 1)
wanted = [*stage.parameters()] + [x] * (rank > frozen)
*own, down = [*torch.autograd.grad(out, wanted, grad)] + [None] * (rank == frozen)
for p, g in zip(stage.parameters(), own):
    p.grad = g
if rank > frozen:
    dist.send(down, rank - 1)""",
        "with isend": """\
sending = []
if rank > 0:
    x = x.clone()
    dist.irecv(x, rank - 1).wait()
    x.requires_grad = rank > frozen
out = stage(x)
if rank + 1 < world_size:
    sending.append(dist.isend(out.detach().clone(), rank + 1))
if rank >= frozen:
    if rank + 1 < world_size:
        grad = torch.zeros_like(out)
        dist.irecv(grad, rank + 1).wait()
    torch.autograd.backward(out, grad)
    if x.grad is not None:
        sending.append(dist.isend(x.grad, rank - 1))
for one in sending:
    one.wait()""",
    },
    "cut_for_memory": {
        "every cut tried": """\
from itertools import combinations, pairwise
edges = [(0, *cut, len(sizes)) for cut in combinations(range(1, len(sizes)), ranks - 1)]
best = min(edges, key=lambda e: max(sum(sizes[a:b]) for a, b in pairwise(e)))
return [b - a for a, b in pairwise(best)]""",
        "recursion": """\
from functools import cache
@cache
def best(start, left):
    if left == 1:
        return sum(sizes[start:]), (len(sizes) - start,)
    ways = []
    for end in range(start, len(sizes) + 1):
        rest, counts = best(end, left - 1)
        ways.append((max(sum(sizes[start:end]), rest), (end - start, *counts)))
    return min(ways)
return list(best(0, ranks)[1])""",
    },
}
