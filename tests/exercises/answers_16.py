"""Answers to the exercises of lesson 16."""

LARGEST = "largest = scores.amax(1)\ndist.all_reduce(largest, dist.ReduceOp.MAX)\n"
TOTAL = "total = (scores - largest[:, None]).exp_().sum(1)\ndist.all_reduce(total)\n"
WANTED = """\
here = target - rank * scores.shape[1]
mine = (here >= 0) & (here < scores.shape[1])
wanted = torch.zeros_like(total)
wanted[mine] = scores[mine, here[mine]]
dist.all_reduce(wanted)
"""
RETURN = "return (total.log() + largest - wanted).mean()"
GATHER = """\
parts = [torch.empty_like(scores) for _ in range(world_size)]
dist.all_gather(parts, scores)
return torch.nn.functional.cross_entropy(torch.cat(parts, 1), target)"""
SIZE = "size = len(weight) // 3 // world_size\n"
WRONG = {
    "my_heads": {
        "as it stands": (
            "return weight.chunk(world_size)[rank]",
            "This cuts the fused matrix as it stands: the first rank has q alone",
        ),
        "head by head": (
            "h = weight.view(3, heads, -1, weight.shape[1]).transpose(0, 1)\n"
            "return h.chunk(world_size)[rank].flatten(0, 2)",
            "These are the right heads in another order",
        ),
        "only rank 0 right": (
            "return weight.view(3, heads, -1, weight.shape[1]).chunk(world_size, 1)[0].flatten(0, 2)",
            "in a world of 2, rank 1 is wrong",
        ),
        "columns": ("return weight.chunk(world_size, 1)[rank]", "in a world of 2, ranks 0-1 are wrong"),
        "q alone": (SIZE + "return weight[rank * size : (rank + 1) * size]", "ranks 0-1 are wrong"),
        "every other head": (
            "return weight.view(3, heads, -1, weight.shape[1])[:, rank::world_size].flatten(0, 2)",
            "in a world of 2, ranks 0-1 are wrong",
        ),
        "nothing returned": ("weight.chunk(world_size)", "Nothing came back"),
        "deadlock": ("if rank == 0:\n    dist.barrier()\nreturn weight", "deadlock"),
        "over budget, rank 0 deals": (
            "parts = weight.view(3, heads, -1, weight.shape[1]).chunk(world_size, 1)\n"
            "parts = [part.flatten(0, 2) for part in parts]\nmine = torch.empty_like(parts[0])\n"
            "dist.scatter(mine, parts if rank == 0 else None, 0)\nreturn mine",
            "over budget: collective calls on each rank 1, limit 0\nThe whole matrix is there",
        ),
    },
    "split_cross_entropy": {
        "no largest score": (
            "largest = torch.zeros(len(scores))\n" + TOTAL + WANTED + RETURN,
            "exp(1000) is beyond float64. Subtract the largest score",
        ),
        "own largest score": (
            "largest = scores.amax(1)\n" + TOTAL + WANTED + RETURN,
            "Each rank subtracted its own largest score.",
        ),
        "own exponentials": (
            LARGEST + TOTAL.split("dist")[0] + WANTED + RETURN,
            "Each rank added up its own exponentials only.",
        ),
        "sum, not mean": (LARGEST + TOTAL + WANTED + RETURN.replace("mean", "sum"), "Return their mean."),
        "target not found": (
            LARGEST + TOTAL + WANTED.replace("dist.all_reduce(wanted)\n", "") + RETURN,
            "in a world of 2, ranks 0-1 are wrong",
        ),
        "nothing returned": (LARGEST + TOTAL + WANTED, "Nothing came back"),
        "only rank 0 right": (
            LARGEST + TOTAL + WANTED + RETURN + " * (1 if rank == 0 else 2)",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            LARGEST
            + TOTAL
            + WANTED.replace("dist.all_reduce(wanted)", "if rank:\n    dist.all_reduce(wanted)")
            + RETURN,
            "deadlock: rank 0 finished the cell, and others wait for it",
        ),
        "over budget, all scores": (GATHER, "over budget: bytes of new tensors at once"),
        "over budget, calls": (
            LARGEST + TOTAL + WANTED + "dist.barrier()\n" + RETURN,
            "over budget: collective calls on each rank 4, limit 3",
        ),
    },
}

RIGHT = {
    "my_heads": {
        "three slices": SIZE
        + """\
parts = [part[rank * size : (rank + 1) * size] for part in weight.chunk(3)]
return torch.cat(parts)""",
        "by number": """\
head = weight.shape[0] // (3 * heads)
own = range(rank * heads // world_size, (rank + 1) * heads // world_size)
rows = [(way * heads + h) * head + i for way in range(3) for h in own for i in range(head)]
return weight[rows]""",
    },
    "split_cross_entropy": {
        "by logsumexp, in two calls": """\
import math
wanted = torch.zeros(len(scores), dtype=scores.dtype)
for i, t in enumerate((target - rank * scores.shape[1]).tolist()):
    if 0 <= t < scores.shape[1]:
        wanted[i] = scores[i, t]
own = scores.logsumexp(1)
largest = own.clone()
dist.all_reduce(largest, dist.ReduceOp.MAX)
both = torch.stack([(own - largest).exp(), wanted])
dist.all_reduce(both)
return (both[0].log() + largest - both[1]).mean()""",
        "one-hot": LARGEST
        + """\
shifted = scores - largest[:, None]
sums = torch.empty(2, len(scores), dtype=scores.dtype)
first = rank * scores.shape[1]
sums[1] = 0
for i in range(scores.shape[1]):
    sums[1] += shifted[:, i] * (target == first + i)
sums[0] = shifted.exp_().sum(1)
dist.all_reduce(sums)
return torch.mean(torch.log(sums[0]) - sums[1])""",
    },
}
