"""Answers to the exercises of lesson 04."""

CROSS_ENTROPY = "from torch.nn.functional import cross_entropy\n"
FLAT = "flat = torch.cat([p.grad.flatten() for p in model.parameters()])\n"
BACK = """
for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
    p.grad.copy_(part.view_as(p))
"""
BACKWARD = CROSS_ENTROPY + (
    "for x, y in batches:\n    (cross_entropy(model(x), y) / len(batches)).backward()\n"
)
WRONG = {
    "sync_in_one": {
        "no divisor": (
            FLAT + "dist.all_reduce(flat)" + BACK,
            "This is the sum. Divide it by the number of ranks.",
        ),
        "wrong divisor": (
            FLAT + "dist.all_reduce(flat)\nflat /= len(list(model.parameters()))" + BACK,
            "This is the sum divided by 4. Divide it by the number of ranks, once",
        ),
        "not copied back": (
            FLAT + "dist.all_reduce(flat)\nflat /= world_size\nreturn flat",
            "The rank's own gradients are still in p.grad.",
        ),
        "over budget": (
            "for p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad /= world_size",
            "over budget: collective calls on each rank 4, limit 1\nOne tensor that holds all gradients",
        ),
        "only rank 0 right": (
            FLAT + "dist.reduce(flat, dst=0)\nif rank > 0:\n    return\nflat /= world_size" + BACK,
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            FLAT + "if rank > 0:\n    dist.all_reduce(flat)",
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
        "gradients lost": ("model.zero_grad()", "got      'a parameter without gradient'"),
    },
    "accumulate": {
        "not divided by the mini-batches": (
            CROSS_ENTROPY + "for x, y in batches:\n    cross_entropy(model(x), y).backward()\n"
            "sync_gradients(model)",
            "This is the sum over the mini-batches. Divide each loss by their number.",
        ),
        "not divided by the ranks": (
            BACKWARD + "for p in model.parameters():\n    dist.all_reduce(p.grad)",
            "This is the sum over the ranks. Divide by their number, as sync_gradients does.",
        ),
        "wrong divisor": (
            BACKWARD + "for p in model.parameters():\n    p.grad /= world_size\nsync_gradients(model)",
            "This is divided by the number of ranks twice: sync_gradients has done it already.",
        ),
        "not synchronised": (BACKWARD, "Each rank has the gradient of its own mini-batches. Synchronise."),
        "zero_grad in the loop": (
            BACKWARD.replace("    (", "    model.zero_grad()\n    (") + "sync_gradients(model)",
            "Only the last mini-batch counts, although the loss is divided by their number",
        ),
        "backward after the loop": (
            CROSS_ENTROPY + "for x, y in batches:\n    loss = cross_entropy(model(x), y)\n"
            "loss.backward()\nsync_gradients(model)",
            "Only the last mini-batch counts: is there",
        ),
        "over budget": (
            BACKWARD + "    sync_gradients(model)",
            "over budget: collective calls on each rank 12, limit 4\nOne synchronisation is one all_reduce",
        ),
        "deadlock": (
            BACKWARD + "if rank == 0:\n    sync_gradients(model)",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
    },
}  # fmt: skip

RIGHT = {
    "sync_in_one": {
        "by torch's own helper": """\
from torch.nn.utils import parameters_to_vector
grads = [p.grad for p in model.parameters()]
flat = parameters_to_vector(grads) / world_size
dist.all_reduce(flat)
for g, part in zip(grads, flat.split([g.numel() for g in grads])):
    g[:] = part.reshape(g.shape)""",
        "by place and by assignment": """\
flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
dist.all_reduce(flat, async_op=True).wait()
start = 0
for p in model.parameters():
    p.grad = flat[start : start + p.numel()].reshape(p.shape).div(dist.get_world_size())
    start += p.numel()
return flat""",
    },
    "accumulate": {
        "divided at the end": CROSS_ENTROPY
        + """\
model.zero_grad()
for x, y in batches:
    cross_entropy(model(x), y).backward()
for p in model.parameters():
    p.grad /= len(batches)
    dist.all_reduce(p.grad)
    p.grad /= dist.get_world_size()""",
        "one collective": CROSS_ENTROPY
        + """\
for x, y in batches:
    (cross_entropy(model(x), y) / len(batches) / world_size).backward()
"""
        + FLAT
        + "dist.all_reduce(flat)"
        + BACK,
    },
}
