"""Answers to the exercises of lesson 08."""

SERVE = """\
working, version, updates = set(workers), {}, []
while working:
    worker, verb, given = receive(weights)
    if verb == FINISH:
        working.remove(worker)
    elif verb == PULL:
        version[worker] = len(updates)
        answer(weights, worker, given)
    else:
        staleness = len(updates) - version[worker]
        update(weights, optimizer, [given * scale(staleness)])
        updates.append((worker, staleness))
return updates
"""
STEP = """\
if rank > 0:
    new = torch.empty_like(x)
    dist.send(x, 0)
    dist.recv(new, 0)
    return new
total, y = torch.zeros_like(x), torch.empty_like(x)
for _ in range(world_size - 1):
    dist.recv(y)
    total += y
x = x - total / (world_size - 1)
for worker in range(1, world_size):
    dist.send(x, worker)
return x
"""
WRONG = {
    "my_serve_asynchronous": {
        "never stale": (SERVE.replace("- version[worker]", "- len(updates)"), "That is never stale"),
        "counted from the last push": (
            SERVE.replace("        version[worker] = len(updates)\n", "")
            .replace("version[worker]", "version.get(worker, 0)")
            .replace("staleness))", "staleness))\n        version[worker] = len(updates)"),
            "You count from the worker's last push",
        ),
        "counted after the update": (
            SERVE.replace("(worker, staleness)", "(worker, staleness + 1)"),
            "One too many: this gradient's own update",
        ),
        "the version now": (
            SERVE.replace("(worker, staleness)", "(worker, len(updates))"),
            "That is a version. Subtract the one at the worker's pull",
        ),
        "the version at the pull": (
            SERVE.replace("(worker, staleness)", "(worker, version[worker])"),
            "That is a version. Subtract the one at the worker's pull",
        ),
        "without the scale": (SERVE.replace(" * scale(staleness)", ""), "Each gradient counts in full"),
        "the scale of the version": (
            SERVE.replace("scale(staleness)", "scale(len(updates))"),
            "each staleness is right, but the weights are not",
        ),
        "never updated": (
            SERVE.replace("        update(weights, optimizer, [given * scale(staleness)])\n", ""),
            "Nothing was updated",
        ),
        "updated in some places": (
            SERVE.replace(
                "[given * scale(staleness)]", "[given * scale(staleness) * (torch.arange(len(given)) > 0)]"
            ),
            "each staleness is right, but some weights are not",
        ),
        "the staleness alone": (
            SERVE.replace("append((worker, staleness))", "append(staleness)"),
            "Return a list of (worker, staleness), one for each update",
        ),
        "nothing returned": (
            SERVE.replace("return updates\n", ""),
            "rank 0 returned None\nReturn a list of (worker, staleness)",
        ),
        "ends with the first worker that ends": (
            SERVE.replace("working.remove(worker)", "break"),
            "deadlock",
        ),
        "deadlock": (SERVE.replace("        answer(weights, worker, given)\n", ""), "deadlock"),
        "answers after the push": (
            SERVE.replace("        answer(weights, worker, given)\n", "        pass\n")
            + "answer(weights, worker, given)",
            "deadlock",
        ),
        "over budget: keeps the weights of each version": (
            SERVE.replace(
                "        version[worker] = len(updates)\n",
                "        version[worker] = len(updates)\n"
                "        old[worker, len(old)] = [weights.detach().clone() for _ in range(5)]\n",
            ).replace("updates = set(workers), {}, []", "updates, old = set(workers), {}, [], {}"),
            "over budget: bytes of new tensors at once",
        ),
    },
    "step_on_server": {
        "the mean over all ranks": (
            STEP.replace("total / (world_size - 1)", "total / world_size"),
            "divide by world_size - 1",
        ),
        "the sum": (STEP.replace("total / (world_size - 1)", "total"), "You subtract the sum"),
        "uphill": (STEP.replace("x - total", "x + total"), "A step goes against the gradient"),
        "the argument lost": (
            STEP.replace("x = x - total / (world_size - 1)", "x -= total / (world_size - 1)"),
            "every rank is right, but rank 0 changed `x`",
        ),
        "answered too early": (
            STEP.replace("dist.send(x, worker)", "dist.send(before, worker)").replace(
                "x = x - total", "before = x\nx = x - total"
            ),
            "These are the weights before the step",
        ),
        "only rank 0 right": (
            STEP.replace("    dist.recv(new, 0)\n", "")
            .replace("return new", "return x")
            .replace("for worker in range(1, world_size):\n    dist.send(x, worker)\n", ""),
            "A worker returns what it was given",
        ),
        "deadlock": (
            STEP.replace(
                "    dist.send(x, 0)\n    dist.recv(new, 0)\n", "    dist.recv(new, 0)\n    dist.send(x, 0)\n"
            ),
            "deadlock: each waits for another",
        ),
        "one gradient too many": (
            STEP.replace("range(world_size - 1):\n    dist.recv(y)", "range(world_size):\n    dist.recv(y)"),
            "deadlock",
        ),
        "lost message": (
            STEP.replace("dist.recv(new, 0)\n", "dist.recv(new, 0)\n    dist.isend(x, 0)\n"),
            "sent rank 0 a message that nobody received",
        ),
        "nothing returned": (
            STEP.replace("return x\n", "return\n").replace("return new\n", "return\n"),
            "without `return` returns None",
        ),
        "over budget, a collective": (
            "gradient = x if rank > 0 else torch.zeros_like(x)\ndist.reduce(gradient, 0)\n"
            "weights = x - gradient / (world_size - 1)\ndist.broadcast(weights, 0)\nreturn weights",
            "over budget: collective calls on each rank 2, limit 0\nServer and workers talk in messages",
        ),
        "over budget, messages": (
            STEP.replace(
                "    dist.send(x, 0)\n", "    dist.send(x, 0)\n    dist.recv(torch.empty(1), 0)\n"
            ).replace(
                "    total += y\n",
                "    total += y\nfor w in range(1, world_size):\n    dist.send(torch.ones(1), w)\n",
            ),
            "over budget: messages in all 3, limit 2\nEach worker pushes once",
        ),
    },
}

RIGHT = {
    "my_serve_asynchronous": {
        "a counter": """\
left, pulled, now, told = len(workers), {}, 0, []
while left > 0:
    worker, verb, gradient = receive(weights)
    if verb == PUSH:
        told.append([worker, now - pulled[worker]])
        weights.grad = gradient * scale(now - pulled[worker])
        optimizer.step()
        now += 1
    elif verb == PULL:
        dist.send(weights.detach(), worker)
        pulled[worker] = now
    else:
        left -= 1
return told""",
        "ages": """\
ages, told, finished = dict.fromkeys(workers, 0), [], 0
while finished < len(workers):
    worker, verb, given = receive(weights)
    if verb == FINISH:
        finished += 1
        continue
    if verb == PULL:
        ages[worker] = 0
        answer(weights, worker, given)
        continue
    told.append((worker, ages[worker]))
    update(weights, optimizer, [given.mul_(scale(ages[worker]))])
    ages = {w: age + 1 for w, age in ages.items()}
return told""",
    },
    "step_on_server": {
        "in the order of the ranks": """\
if rank:
    new = torch.empty_like(x)
    dist.send(x, dst=0)
    dist.recv(new, src=0)
    return new
gradients = [torch.empty_like(x) for _ in range(1, world_size)]
for worker, gradient in enumerate(gradients, 1):
    dist.recv(gradient, src=worker)
weights = x - torch.stack(gradients).mean(0)
for worker in range(1, world_size):
    dist.send(weights, dst=worker)
return weights""",
        "all at once, by an optimiser": """\
if rank > 0:
    new = torch.empty_like(x)
    for work in [dist.isend(x, 0), dist.irecv(new, 0)]:
        work.wait()
    return new
weights = torch.nn.Parameter(x.clone())
gradients = torch.empty(world_size - 1, len(x), dtype=x.dtype)
for work in [dist.irecv(g, w) for w, g in enumerate(gradients, 1)]:
    work.wait()
weights.grad = gradients.mean(0)
torch.optim.SGD([weights], lr=1.0).step()
for work in [dist.isend(weights.detach(), w) for w in range(1, world_size)]:
    work.wait()
return weights.detach()""",
    },
}
