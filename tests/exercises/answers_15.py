"""Right answers to the exercises of lesson 15 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "chain_step": (
        edit(
            "out.backward(grad)", "of_x, *others = torch.autograd.grad(out, [x, *stage.parameters()], grad)\n"
            "    for p, g in zip(stage.parameters(), others):\n        p.grad = g",
            "send(x.grad", "send(of_x",
        ),
        body("""\
from labkit.algorithms import backward_through, forward_through
x, out = forward_through(stage, x, world_size)
backward_through(x, out if rank < world_size - 1 else (out * grad).sum(), world_size)"""),
    ),
    "fine_tune": (
        edit(
            "    out.backward(grad)\n", "    wanted = [*stage.parameters()] + [x] * (rank > frozen)\n"
            "    *own, down = [*torch.autograd.grad(out, wanted, grad)] + [None] * (rank == frozen)\n"
            "    for p, g in zip(stage.parameters(), own):\n        p.grad = g\n",
            "send(x.grad", "send(down",
        ),
        edit(
            "dist.send(out.detach(), rank + 1)", "sending = dist.isend(out.detach().clone(), rank + 1)",
            "frozen:\n        return", "frozen:\n        return last or sending.wait()",
            "    out.backward(grad)\n", "    out.backward(grad)\n    if not last:\n        sending.wait()\n",
        ),
    ),
    "cut_for_memory": (
        body("""\
from itertools import combinations, pairwise
edges = [(0, *cut, len(sizes)) for cut in combinations(range(1, len(sizes)), ranks - 1)]
best = min(edges, key=lambda e: max(sum(sizes[a:b]) for a, b in pairwise(e)))
return [b - a for a, b in pairwise(best)]"""),
        body("""\
def most(start, left):
    if left == 1:
        return sum(sizes[start:]), [len(sizes) - start]
    ways = []
    for end in range(start, len(sizes) + 1):
        rest, counts = most(end, left - 1)
        ways.append((max(sum(sizes[start:end]), rest), [end - start, *counts]))
    return min(ways)
return most(0, ranks)[1]"""),
    ),
}  # fmt: skip
