"""Answers to the exercises of lesson 21."""

EACH = "for p, master in zip(model.parameters(), masters):\n"
SUM = "    dist.all_reduce(p.grad)\n"
STEP = "    master -= rate * p.grad.float() / world_size\n"
COPY = "    p.data.copy_(master)\n"
UNSCALE = "    master -= rate * p.grad.float() / (scale * world_size)\n"
SUMS = "for p in model.parameters():\n    dist.all_reduce(p.grad)\n"
FINE = "fine = all(p.grad.isfinite().all() for p in model.parameters())\n"
SKIP = "if not fine:\n    return scale / 2, 0\n"
GROW = "if good == 19:\n    return 2 * scale, 0\nreturn scale, good + 1\n"
GOOD = SUMS + FINE + SKIP + EACH + UNSCALE + COPY + GROW


def wrong_updates(update):
    """What goes wrong alike with a scale and without: (answer, what its writer is told), by name."""
    body = EACH + SUM + update + COPY
    return {
        "not copied": (EACH + SUM + update, "The masters are right, but the model still has its old weights"),
        "from the rounded weights": (
            body.replace("master -= ", "master[:] = p.float() - "),
            "You begin with the rounded weights",
        ),
        "no divisor": (
            body.replace(" / world_size", "").replace("scale * world_size", "scale"),
            "This is an update by the sum. Divide it by",
        ),
        "own gradient": (
            (EACH + update + COPY).replace(" / world_size", "").replace("scale * world_size", "scale")
            + "dist.all_reduce(torch.cat([p.grad.flatten() for p in model.parameters()]))",
            "Each rank has stepped along its own gradient: sum it",
        ),
        "a copy is summed": (
            body.replace("all_reduce(p.grad)", "all_reduce(p.grad.clone())"),
            "Each rank has stepped along its own gradient, divided",
        ),
        "over budget: float32 travels": (
            EACH
            + "    g = p.grad.float()\n    dist.all_reduce(g)\n"
            + update.replace("p.grad.float()", "g")
            + COPY,
            "over budget: bytes handed to calls by a rank 96, limit 48\nGradients travel as they are",
        ),
        "only rank 0 right": (
            body.replace("all_reduce(p.grad)", "reduce(p.grad, dst=0)"),
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            "if rank == 0:\n    return\n" + body,
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
    }


WRONG = {
    "my_master_step": {
        "in 16 bits": (
            EACH + SUM + "    p.data -= rate * p.grad / world_size\n",
            "Nothing has moved. An update of a weight of 16 bits vanishes",
        ),
        "a new master": (
            EACH + SUM + "    master = p.data - rate * p.grad / world_size\n" + COPY,
            "Nothing has moved. An update of a weight of 16 bits vanishes",
        ),
        **wrong_updates(STEP),
    },
    "scaled_update": {
        "as it was": (
            EACH
            + SUM
            + "    mean = p.grad / (scale * world_size)\n    master -= rate * mean.float()\n"
            + COPY,
            "Nothing has moved: unscaled in float16, the gradient is 0 again.",
        ),
        "unscaled before the sum": (
            EACH + "    p.grad /= scale\n" + SUM + STEP + COPY,
            "Nothing has moved: unscaled in float16, the gradient is 0 again.",
        ),
        **wrong_updates(UNSCALE),
    },
    "my_scaled_step": {
        "no skip": (GOOD.replace(SKIP, ""), "A step was taken with inf or nan in the gradients: skip it."),
        "each for itself": (
            FINE + SUMS + SKIP + EACH + UNSCALE + COPY + GROW,
            "Each rank decides by its own gradients, and only the one with the inf skips.",
        ),
        "agreed before the sum": (
            FINE
            + "flag = torch.tensor(float(fine))\ndist.all_reduce(flag, dist.ReduceOp.MIN)\nfine = flag > 0\n"
            + SUMS
            + SKIP
            + EACH
            + UNSCALE
            + COPY
            + GROW,
            "You look before the sum: finite numbers of all ranks can add up to inf.",
        ),
        "tensor by tensor": (
            SUMS
            + FINE
            + EACH
            + "    if p.grad.isfinite().all():\n    "
            + UNSCALE
            + "    "
            + COPY
            + SKIP
            + GROW,
            "Only the tensor with the inf is skipped",
        ),
        "not halved": (
            GOOD.replace("return scale / 2, 0", "return scale, 0"),
            "After a skipped step the scale must be halved.",
        ),
        "not counted anew": (
            GOOD.replace("return scale / 2, 0", "return scale / 2, good"),
            "After a skipped step the count must begin again, at 0.",
        ),
        "never doubled": (
            GOOD.replace(GROW, "return scale, good + 1"),
            "The scale never grows: double it after 20 good steps.",
        ),
        "no divisor": (
            GOOD.replace("(scale * world_size)", "scale"),
            "This is an update by the sum. Divide it by the number of ranks.",
        ),
        "not unscaled": (
            GOOD.replace("(scale * world_size)", "world_size"),
            "The gradients are still `scale` times as large: divide.",
        ),
        "nothing returned": (GOOD.replace(GROW, ""), "Nothing came back"),
        "over budget: float32 travels": (
            GOOD.replace(
                SUMS,
                "for p in model.parameters():\n    g = p.grad.float()\n    dist.all_reduce(g)\n"
                "    p.grad = g.half()\n",
            ),
            "over budget: bytes handed to calls by a rank 384, limit 224\nGradients travel as they are",
        ),
        "only rank 0 right": (
            GOOD.replace("all_reduce(p.grad)", "reduce(p.grad, dst=0)"),
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (FINE + SKIP + GOOD, "deadlock: rank "),
    },
}

RIGHT = {
    "my_master_step": {
        "in one tensor": """\
g = torch.cat([p.grad.flatten() for p in model.parameters()])
dist.all_reduce(g)
sizes = [p.numel() for p in model.parameters()]
for p, master, part in zip(model.parameters(), masters, g.float().split(sizes)):
    master.sub_(part.view_as(master), alpha=rate / world_size)
    p.data = master.to(p.dtype)""",
        "asynchronous": """\
works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
for work, p, master in zip(works, model.parameters(), masters):
    work.wait()
    master -= p.grad.float() * (rate / dist.get_world_size())
with torch.no_grad():
    for p, master in zip(model.parameters(), masters):
        p.copy_(master)""",
    },
    "scaled_update": {
        "unscaled in two steps": EACH
        + SUM
        + "    g = p.grad.float() / scale\n    g /= dist.get_world_size()\n    master -= rate * g\n"
        + COPY,
        "by an optimiser": """\
for p, master in zip(model.parameters(), masters):
    dist.all_reduce(p.grad)
    master.grad = p.grad.float() / (scale * world_size)
torch.optim.SGD(masters, lr=rate).step()
for p, master in zip(model.parameters(), masters):
    p.data.copy_(master)""",
    },
    "my_scaled_step": {
        "in one tensor": """\
g = torch.cat([p.grad.flatten() for p in model.parameters()])
dist.all_reduce(g)
if g.isinf().any() or g.isnan().any():
    return 0.5 * scale, 0
parts = g.float().split([p.numel() for p in model.parameters()])
for p, master, part in zip(model.parameters(), masters, parts):
    master -= rate / world_size / scale * part.view_as(master)
    p.data.copy_(master)
return [scale, good + 1] if good < 19 else [scale * 2, 0]""",
        "agreed once more": SUMS
        + FINE
        + "flag = torch.tensor([float(fine)])\ndist.all_reduce(flag, dist.ReduceOp.MIN)\n"
        + "if flag.item() == 0:\n    return scale / 2, 0\n"
        + EACH
        + UNSCALE
        + COPY
        + GROW,
    },
}
