"""Answers to the exercises of lesson 08."""

STEP = """\
if rank > 0:
    dist.send(x, 0)
    dist.recv(x, 0)
    return x
total, y = torch.zeros_like(x), torch.empty_like(x)
for _ in range(world_size - 1):
    dist.recv(y)
    total += y
x = x - total / (world_size - 1)
for worker in range(1, world_size):
    dist.send(x, worker)
return x
"""
ROWS = """\
if rank > 0:
    touched, where = ids.unique(return_inverse=True)
    rows = torch.empty(len(touched), table.shape[1], dtype=table.dtype)
    dist.send(torch.tensor(len(touched)), 0)
    dist.send(touched, 0)
    dist.recv(rows, 0)
    return rows[where]
for _ in range(world_size - 1):
    count = torch.tensor(0)
    worker = dist.recv(count)
    wanted = torch.empty(count, dtype=torch.int64)
    dist.recv(wanted, worker)
    dist.send(table[wanted], worker)
return table[ids]
"""
TABLE = """\
if rank > 0:
    dist.recv(table, 0)
else:
    for worker in range(1, world_size):
        dist.send(table, worker)
return table[ids]
"""
WRONG = {
    "step_on_server": {
        "the mean over all ranks": (
            STEP.replace("total / (world_size - 1)", "total / world_size"),
            "divide by world_size - 1",
        ),
        "the sum": (STEP.replace("total / (world_size - 1)", "total"), "You subtract the sum"),
        "uphill": (STEP.replace("x - total", "x + total"), "A step goes against the gradient"),
        "answered too early": (
            STEP.replace("dist.send(x, worker)", "dist.send(before, worker)").replace(
                "x = x - total", "before = x\nx = x - total"
            ),
            "These are the weights before the step",
        ),
        "only rank 0 right": (
            STEP.replace("    dist.recv(x, 0)\n", "").replace(
                "for worker in range(1, world_size):\n    dist.send(x, worker)\n", ""
            ),
            "A worker returns what it was given",
        ),
        "deadlock": (
            STEP.replace(
                "    dist.send(x, 0)\n    dist.recv(x, 0)\n", "    dist.recv(x, 0)\n    dist.send(x, 0)\n"
            ),
            "deadlock: each waits for another",
        ),
        "one gradient too many": (
            STEP.replace("range(world_size - 1):\n    dist.recv(y)", "range(world_size):\n    dist.recv(y)"),
            "deadlock",
        ),
        "lost message": (
            STEP.replace("dist.recv(x, 0)\n", "dist.recv(x, 0)\n    dist.isend(x, 0)\n"),
            "sent rank 0 a message that nobody received",
        ),
        "nothing returned": (STEP.replace("return x\n", "return\n"), "without `return` returns None"),
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
    "rows_from_server": {
        "own zeros": ("return table[ids]", "it is zeros: ask the server"),
        "not put back": (
            ROWS.replace("rows[where]", "rows").replace("return table[ids]", "return table[ids.unique()]"),
            "Put them back",
        ),
        "only the workers lack their order": (ROWS.replace("rows[where]", "rows"), "rank 1 is wrong"),
        "the whole table": (TABLE.replace("table[ids]", "table"), "This is the whole table"),
        "only rank 0 right": (
            ROWS.replace("dist.send(table[wanted], worker)", "dist.send(0 * table[wanted], worker)"),
            "rank 1 is wrong",
        ),
        "deadlock": (
            ROWS.replace("    dist.send(touched, 0)\n    dist.recv(rows, 0)\n", "    dist.recv(rows, 0)\n"),
            "deadlock: each waits for another",
        ),
        "nothing returned": (ROWS.replace("return rows[where]", "return"), "without `return` returns None"),
        "over budget, repeated rows": (
            ROWS.replace("ids.unique(return_inverse=True)", "ids, slice(None)"),
            "over budget: bytes sent by the busiest rank",
        ),
        "over budget, the whole table": (TABLE, "over budget: bytes sent by the busiest rank"),
        "over budget, row by row": (
            ROWS.replace(
                "    dist.recv(rows, 0)\n", "    for row in rows:\n        dist.recv(row, 0)\n"
            ).replace(
                "    dist.send(table[wanted], worker)\n",
                "    for n in wanted:\n        dist.send(table[n], worker)\n",
            ),
            "over budget: messages in all",
        ),
        "over budget, a collective": (
            "dist.broadcast(table, 0)\nreturn table[ids]",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
}

RIGHT = {
    "step_on_server": {
        "in the order of the ranks": """\
if rank:
    dist.send(x, dst=0)
    dist.recv(x, src=0)
    return x
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
weights = torch.nn.Parameter(x)
gradients = torch.empty(world_size - 1, len(x), dtype=x.dtype)
for work in [dist.irecv(g, w) for w, g in enumerate(gradients, 1)]:
    work.wait()
weights.grad = gradients.mean(0)
torch.optim.SGD([weights], lr=1.0).step()
for work in [dist.isend(weights.detach(), w) for w in range(1, world_size)]:
    work.wait()
return weights.detach()""",
    },
    "rows_from_server": {
        "the distinct numbers by hand, in their order": """\
if rank > 0:
    distinct = list(dict.fromkeys(ids.tolist()))
    rows = torch.empty(len(distinct), table.shape[1], dtype=table.dtype)
    dist.send(torch.tensor([len(distinct)]), dst=0)
    dist.send(torch.tensor(distinct), dst=0)
    dist.recv(rows, src=0)
    return torch.stack([rows[distinct.index(n)] for n in ids.tolist()])
for worker in range(1, world_size):
    count = torch.zeros(1, dtype=torch.int64)
    dist.recv(count, src=worker)
    wanted = torch.zeros(count.item(), dtype=torch.int64)
    dist.recv(wanted, src=worker)
    dist.send(table[wanted], dst=worker)
return table[ids]""",
        "through a table of one's own, asked for all at once": """\
if rank > 0:
    touched = ids.unique()
    rows = torch.empty(len(touched), table.shape[1], dtype=table.dtype)
    count = torch.tensor([len(touched)])
    works = [dist.isend(count, 0), dist.isend(touched, 0), dist.irecv(rows, 0)]
    [work.wait() for work in works]
    table[touched] = rows
else:
    for _ in range(world_size - 1):
        count = torch.empty(1, dtype=torch.int64)
        worker = dist.recv(count)
        wanted = torch.empty(count[0], dtype=torch.int64)
        dist.recv(wanted, worker)
        dist.send(table.index_select(0, wanted), worker)
return table[ids]""",
    },
}
