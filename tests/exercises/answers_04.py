"""Answers to the exercises of lesson 04."""

CROSS_ENTROPY = "from torch.nn.functional import cross_entropy\n"
FLAT = "flat = torch.cat([p.grad.flatten() for p in model.parameters()])\n"
BACK = """
for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
    p.grad.copy_(part.view_as(p))
"""
BACKWARD = CROSS_ENTROPY + (
    "model.zero_grad()\nfor x, y in batches:\n    (cross_entropy(model(x), y) / len(batches)).backward()\n"
)
STEP = (
    "losses = []\norder = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))\n"
    "for batch in order.split(batch_size):\n"
    "    optimizer.zero_grad()\n"
    "    loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])\n"
    "    loss.backward()\n    sync(model)\n    optimizer.step()\n    losses.append(loss.item())\n"
)
LOSS = "optimizer.zero_grad()\nloss = torch.nn.functional.cross_entropy(model(x), y)\n"
WRONG = {
    "my_sync_initial_weights": {
        "parameters alone": (
            "for p in model.parameters():\n    dist.broadcast(p.data, src=0)",
            "The parameters are rank 0's, the buffers are not",
        ),
        "nothing": ("model.state_dict()", "These are the rank's own weights"),
        "into copies": (
            "for t in model.state_dict().values():\n    dist.broadcast(t.clone(), src=0)",
            "These are the rank's own weights",
        ),
        "from the last": (
            "for t in model.state_dict().values():\n    dist.broadcast(t, src=world_size - 1)",
            "These are the last rank's weights",
        ),
        "the mean": (
            "for t in model.state_dict().values():\n    dist.all_reduce(t)\n"
            "    t.copy_(t / world_size)",
            "This is the mean over the ranks. Take the weights of rank 0: broadcast them.",
        ),
        "the mean of the parameters": (
            "for p in model.parameters():\n    dist.all_reduce(p.data)\n    p.data /= world_size",
            "This is the mean over the ranks. Take the weights of rank 0: broadcast them.",
        ),
        "only rank 0 right": (
            "for t in model.state_dict().values():\n    dist.reduce(t.clone(), dst=0)",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "for t in model.state_dict().values():\n    dist.broadcast(t, src=0)\n    dist.barrier()",
            "over budget: collective calls on each rank 14, limit 7\nOne broadcast for each",
        ),
        "deadlock": (
            "if rank == 0:\n    for t in model.state_dict().values():\n        dist.broadcast(t, src=0)",
            "deadlock: ",
        ),
    },
    "my_sync_gradients": {
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
        "divided twice": (
            "for p in model.parameters():\n    dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)\n"
            "    p.grad /= world_size",
            "Divide it by the number of ranks, once: dist.get_world_size().",
        ),
        "weights as well": (
            "for p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad /= world_size\n"
            "    p.data -= 0.1 * p.grad",
            "rank 0 changed `model`, which its caller goes on using",
        ),
        "not waited for": (
            "for p in model.parameters():\n    dist.all_reduce(p.grad, async_op=True)\n"
            "    p.grad /= world_size",
            "rank 0 never waits for its asynchronous all_reduce: call wait()",
        ),
        "over budget": (
            "for p in model.parameters():\n    dist.barrier()\n    dist.all_reduce(p.grad)\n"
            "    p.grad /= world_size",
            "over budget: collective calls on each rank 8, limit 4\nOne all_reduce for each parameter",
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
    "my_train_epoch": {
        "no sync": (STEP.replace("    sync(model)\n", "") + "return losses", "Each rank has trained alone"),
        "sync too late": (
            STEP.replace("    sync(model)\n    optimizer.step()", "    optimizer.step()\n    sync(model)")
            + "return losses",
            "sync(model) belongs between backward() and step()",
        ),
        "no zero_grad": (
            "optimizer.zero_grad()\n" + STEP.replace("    optimizer.zero_grad()\n", "") + "return losses",
            "The gradients of earlier mini-batches are in there",
        ),
        "not shuffled": (
            STEP.replace("for batch in order", "for batch in torch.arange(len(x))") + "return losses",
            "The samples were taken as they lie",
        ),
        "sync_gradients by name": (
            STEP.replace("sync(model)", "sync_gradients(model)") + "return losses",
            "Call `sync(model)`, the function that is given",
        ),
        "losses with their graphs": (
            STEP.replace("loss.item()", "loss") + "return losses",
            "Return numbers: loss.item()",
        ),
        "losses as tensors": (
            STEP.replace("loss.item()", "loss.detach()") + "return losses",
            "Return numbers: loss.item()",
        ),
        "no losses": (STEP, "The weights are right, the losses are not"),
        "never stepped": (STEP.replace("    optimizer.step()\n", "") + "return losses", "are wrong"),
        "over budget": (
            STEP.replace("    sync(model)\n", "    sync(model)\n    sync(model)\n") + "return losses",
            "over budget: collective calls on each rank 24, limit 12\nOne sync for each mini-batch",
        ),
        "deadlock": (
            STEP.replace("    sync(model)\n", "    if rank == 0:\n        sync(model)\n") + "return losses",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
    },
    "mend_the_step": {
        "as it was": (
            LOSS + "dist.all_reduce(loss.detach())\n(loss / 1).backward()\noptimizer.step()",
            "Each rank has stepped with its own gradient. The mean of the losses",
        ),
        "divided alone": (
            LOSS + "(loss / world_size).backward()\noptimizer.step()",
            "Each rank has stepped with its own gradient, divided by the number of ranks",
        ),
        "wrong divisor": (
            LOSS + "(loss / world_size).backward()\nsync_gradients(model)\noptimizer.step()",
            "The mean gradient was divided by the number of ranks once more",
        ),
        "the sum": (
            LOSS + "loss.backward()\nfor p in model.parameters():\n    dist.all_reduce(p.grad)\n"
            "optimizer.step()",
            "This is a step along the sum of the gradients",
        ),
        "weights averaged": (
            LOSS + "loss.backward()\noptimizer.step()\nfor p in model.parameters():\n"
            "    dist.all_reduce(p.data)\n    p.data /= world_size",
            "Each rank has stepped alone, and then the weights were averaged.",
        ),
        "no step": (LOSS + "loss.backward()\nsync_gradients(model)", "The weights are as they were"),
        "over budget": (
            LOSS + "loss.backward()\nsync_gradients(model)\nsync_gradients(model)\noptimizer.step()",
            "over budget: collective calls on each rank 8, limit 5\nOne all_reduce for each parameter",
        ),
        "deadlock": (
            LOSS + "loss.backward()\nif rank == 0:\n    sync_gradients(model)\noptimizer.step()",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
    },
    "accumulate": {
        "not divided by the mini-batches": (
            CROSS_ENTROPY + "model.zero_grad()\nfor x, y in batches:\n"
            "    cross_entropy(model(x), y).backward()\nsync_gradients(model)",
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
            CROSS_ENTROPY + "model.zero_grad()\nfor x, y in batches:\n    loss = cross_entropy(model(x), y)\n"
            "loss.backward()\nsync_gradients(model)",
            "Only the last mini-batch counts: is there",
        ),
        "stale gradients": (
            BACKWARD.replace("model.zero_grad()\n", "") + "sync_gradients(model)",
            "What the last step left in p.grad is still in there",
        ),
        "a step at the end": (
            BACKWARD + "sync_gradients(model)\nfor p in model.parameters():\n    p.data -= 0.1 * p.grad",
            "rank 0 changed `model`, which its caller goes on using",
        ),
        "batches used up": (
            CROSS_ENTROPY + "model.zero_grad()\nn = len(batches)\nwhile batches:\n"
            "    x, y = batches.pop()\n    (cross_entropy(model(x), y) / n).backward()\n"
            "sync_gradients(model)",
            "rank 0 changed `batches`, which its caller goes on using",
        ),
        "one large batch": (
            CROSS_ENTROPY + "model.zero_grad()\nx, y = (torch.cat(part) for part in zip(*batches))\n"
            "cross_entropy(model(x), y).backward()\nsync_gradients(model)",
            "over budget: bytes of new tensors at once",
        ),
        "one backward": (
            CROSS_ENTROPY + "model.zero_grad()\n"
            "(sum(cross_entropy(model(x), y) for x, y in batches) / len(batches)).backward()\n"
            "sync_gradients(model)",
            "That is the graph of more than one mini-batch. Call backward() for each",
        ),
        "over budget": (
            BACKWARD + "    sync_gradients(model)",
            "over budget: collective calls on each rank 24, limit 4\nOne synchronisation is one all_reduce",
        ),
        "deadlock": (
            BACKWARD + "if rank == 0:\n    sync_gradients(model)",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
    },
}  # fmt: skip

RIGHT = {
    "my_sync_initial_weights": {
        "parameters, then buffers": """\
for group in (model.parameters(), model.buffers()):
    for tensor in group:
        dist.broadcast(tensor.data, 0)""",
        "in one, as numbers": """\
state = model.state_dict()
flat = torch.cat([t.double().flatten() for t in state.values()])
dist.broadcast(flat, src=0)
for t, part in zip(state.values(), flat.split([t.numel() for t in state.values()])):
    t.copy_(part.view_as(t))""",
    },
    "my_train_epoch": {
        "by place": """\
from torch.nn.functional import cross_entropy
losses = []
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)).tolist()
for start in range(0, len(x), batch_size):
    batch = order[start : start + batch_size]
    for p in model.parameters():
        p.grad = None
    loss = cross_entropy(model(x[batch]), y[batch])
    loss.backward()
    sync(model)
    optimizer.step()
    losses += [float(loss)]
return losses""",
        "zeroed at the end": """\
order, losses = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)), []
optimizer.zero_grad()
for batch in torch.split(order, batch_size):
    losses.append(torch.nn.functional.cross_entropy(model(x[batch]), y[batch]))
    losses[-1].backward()
    sync(model)
    optimizer.step()
    optimizer.zero_grad()
return [loss.item() for loss in losses]""",
    },
    "mend_the_step": {
        "with the loss to show": """\
optimizer.zero_grad()
loss = torch.nn.functional.cross_entropy(model(x), y)
loss.backward()
sync_gradients(model)
optimizer.step()
dist.all_reduce(loss.detach())
return loss.item() / world_size""",
        "divided first": """\
optimizer.zero_grad()
(torch.nn.functional.cross_entropy(model(x), y) / world_size).backward()
for p in model.parameters():
    dist.all_reduce(p.grad)
optimizer.step()""",
    },
    "my_sync_gradients": {
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
model.zero_grad()
for x, y in batches:
    (cross_entropy(model(x), y) / len(batches) / world_size).backward()
"""
        + FLAT
        + "dist.all_reduce(flat)"
        + BACK,
    },
}
