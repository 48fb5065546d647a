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


def operator(forward: str, backward: str) -> str:
    """The body of a class with these two methods, each a line or more."""
    first = "x" if "x" in forward.replace("max", "") and "part" not in forward else "part"
    return (
        f"@staticmethod\ndef forward(ctx, {first}):\n    " + forward.replace("\n", "\n    ")
        + "\n\n@staticmethod\ndef backward(ctx, grad):\n    " + backward.replace("\n", "\n    ")
    )  # fmt: skip


F = "return x.view_as(x)"
SUM = "total = {0}.clone()\ndist.all_reduce(total)\nreturn total"
BACK, THERE = SUM.format("grad"), SUM.format("part")
WRONG = {
    "MyCopyToRanks": {
        "own gradient": (operator(F, "return grad"), "Backward hands on the rank's own gradient"),
        "the mean": (
            operator(F, BACK.replace("return total", "return total / world_size")),
            "Backward gives the mean",
        ),
        "sum forward": (operator(SUM.format("x"), BACK), "Forward adds up. x is the same everywhere already"),
        "in place": (
            operator(F, "dist.all_reduce(grad)\nreturn grad"),
            "rank 0 changed `grad`, which its caller goes on using",
        ),
        "no gradient": (
            operator(F, "dist.all_reduce(grad.clone())"),
            "Forward is right, but backward returns no gradient",
        ),
        "only rank 0 right": (
            operator(F, BACK.replace("all_reduce(total)", "reduce(total, 0)")),
            "rank 1 is wrong",
        ),
        "not waited for": (
            operator(F, BACK.replace("all_reduce(total)", "all_reduce(total, async_op=True)")),
            "never waits for its asynchronous all_reduce",
        ),
        "deadlock": (
            operator(F, "if rank == 0:\n    dist.all_reduce(grad.clone())\nreturn grad"),
            "deadlock: ",
        ),
        "over budget": (
            operator(F, BACK.replace("return total", "dist.barrier()\nreturn total")),
            "over budget: collective calls on each rank 2, limit 1\nForward needs none, backward one",
        ),
    },
    "MySumOverRanks": {
        "own part": (
            operator("return part.clone()", "return grad"),
            "Forward hands on the rank's own partial",
        ),
        "the mean": (
            operator(THERE.replace("return total", "return total / world_size"), "return grad"),
            "Forward gives the mean",
        ),
        "sum backward": (operator(THERE, BACK), "Backward adds up equal gradients"),
        "only rank 0 right": (
            operator(THERE.replace("all_reduce(total)", "reduce(total, 0)"), "return grad"),
            "rank 1 is wrong",
        ),
        "in place": (
            operator("dist.all_reduce(part)\nreturn part", "return grad"),
            "rank 0 changed `part`, which its caller goes on using",
        ),
        "in place, and autograd told": (
            operator("dist.all_reduce(part)\nctx.mark_dirty(part)\nreturn part", "return grad"),
            "rank 0 changed `part`, which its caller goes on using",
        ),
        "gradient divided": (
            operator(THERE, "return grad / world_size"),
            "Forward is right, but backward divides by the number of ranks",
        ),
        "no gradient": (operator(THERE, "return None"), "Forward is right, but backward returns no gradient"),
        "deadlock": (
            operator("if rank == 0:\n    dist.all_reduce(part.clone())\nreturn part.clone()", "return grad"),
            "deadlock: ",
        ),
        "over budget": (
            operator(THERE.replace("return total", "dist.barrier()\nreturn total"), "return grad"),
            "over budget: collective calls on each rank 2, limit 1\nForward needs one, backward none",
        ),
    },
    "row_parallel": {
        "as it was": (
            "part = x @ weight + bias\ndist.all_reduce(part, op=dist.ReduceOp.SUM)\nreturn part",
            "The bias is in there once for each rank",
        ),
        "no bias": ("part = x @ weight\ndist.all_reduce(part)\nreturn part", "The bias is missing"),
        "own part": ("return x @ weight + bias", "That is the rank's own partial sum"),
        "the mean": (
            "part = x @ weight\ndist.all_reduce(part)\nreturn part / world_size + bias",
            "This is the mean of the partial sums: their sum is the output. Divide by nothing.",
        ),
        "bias lost": (
            "bias /= world_size\npart = x @ weight + bias\ndist.all_reduce(part)\nreturn part",
            "rank 0 changed `bias`, which its caller goes on using",
        ),
        "deadlock": (
            "part = x @ weight\nif rank == 0:\n    dist.all_reduce(part)\nreturn part + bias",
            "deadlock: ",
        ),
        "over budget": (
            "part = x @ weight\ndist.reduce(part, 0)\ndist.broadcast(part, 0)\nreturn part + bias",
            "over budget: collective calls on each rank 2, limit 1\nOne sum over the ranks",
        ),
    },
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
            "exp(1000) is beyond any float. Subtract the largest score",
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
    "MyCopyToRanks": {
        "waited for later": operator(
            F, "total = grad + 0\nwork = dist.all_reduce(total, async_op=True)\nwork.wait()\nreturn total"
        ),
        "by gathering": operator(
            "return x.clone()",
            "every = [torch.empty_like(grad) for _ in range(world_size)]\n"
            "dist.all_gather(every, grad)\nreturn sum(every)",
        ),
    },
    "MySumOverRanks": {
        "by gathering": operator(
            "every = [torch.empty_like(part) for _ in range(world_size)]\n"
            "dist.all_gather(every, part)\nreturn torch.stack(every).sum(0)",
            "return grad.clone()",
        ),
        "a product": operator(THERE, "return 1.0 * grad"),
    },
    "row_parallel": {
        "a share of the bias": "part = x @ weight + bias / world_size\ndist.all_reduce(part)\nreturn part",
        "the bias on rank 0": "part = x @ weight\nif rank == 0:\n    part += bias\n"
        "dist.all_reduce(part)\nreturn part",
    },
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
