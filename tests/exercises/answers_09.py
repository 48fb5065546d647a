"""Answers to the exercises of lesson 09."""

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
table = table.clone()
if rank > 0:
    dist.recv(table, 0)
else:
    for worker in range(1, world_size):
        dist.send(table, worker)
return table[ids]
"""
PUSH = """\
if rank > 0:
    dist.send(torch.tensor(len(ids)), 0)
    dist.send(ids, 0)
    dist.send(rows, 0)
    return
table = table.clone()
for _ in range(world_size - 1):
    n = torch.tensor(0)
    worker = dist.recv(n)
    numbers = torch.empty(n, dtype=torch.int64)
    dist.recv(numbers, worker)
    y = table.new_empty(n, table.shape[1])
    dist.recv(y, worker)
    table.index_add_(0, numbers, y, alpha=-1)
return table
"""
ADD = "table.index_add_(0, numbers, y, alpha=-1)"
WRONG = {
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
            "table = table.clone()\ndist.broadcast(table, 0)\nreturn table[ids]",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "push_rows": {
        "as it was, in other words": (
            PUSH.replace(ADD, "table[numbers] = table[numbers] - y"),
            "only one of the two gradients has counted",
        ),
        "distinct numbers, the last gradient": (
            PUSH.replace(
                ADD,
                "last = {k: g for k, g in zip(numbers.tolist(), y)}\n"
                "    for k, g in last.items():\n        table[k] -= g",
            ),
            "only one of the two gradients has counted",
        ),
        "uphill": (PUSH.replace("alpha=-1", "alpha=1"), "You add the gradients"),
        "the mean": (
            PUSH.replace("alpha=-1", "alpha=-1 / (world_size - 1)"),
            "in a world of 3, rank 0 is wrong",
        ),
        "only the last worker": (
            PUSH.replace(
                "for _ in range(world_size - 1):\n", "new = table\nfor _ in range(world_size - 1):\n"
            ).replace(ADD, "table = new.index_add(0, numbers, y, alpha=-1)"),
            "in a world of 3, rank 0 is wrong",
        ),
        "nothing subtracted": (PUSH.replace(ADD, "pass"), "That is the table as it was"),
        "only rank 0 right": (
            PUSH.replace("dist.send(rows, 0)", "dist.send(0 * rows, 0)"),
            "That is the table as it was",
        ),
        "nothing returned": (PUSH.replace("return table", "return"), "without `return` returns None"),
        "deadlock": (
            PUSH.replace("    dist.send(ids, 0)\n    dist.send(rows, 0)\n", "    dist.send(ids, 0)\n"),
            "deadlock",
        ),
        "over budget, row by row": (
            PUSH.replace(
                "    dist.send(rows, 0)\n", "    for row in rows:\n        dist.send(row, 0)\n"
            ).replace("    dist.recv(y, worker)\n", "    for row in y:\n        dist.recv(row, worker)\n"),
            "over budget: messages in all",
        ),
        "over budget, a collective": (
            "total = torch.zeros_like(table)\ntotal.index_add_(0, ids, rows)\ndist.reduce(total, 0)\n"
            "return table - total",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
}

RIGHT = {
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
    table = table.clone()
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
    "push_rows": {
        "row by row": PUSH.replace(ADD, "for k, g in zip(numbers.tolist(), y):\n        table[k] -= g"),
        "as a sparse tensor": PUSH.replace(
            ADD, "table = table - torch.sparse_coo_tensor(numbers[None], y, table.shape).to_dense()"
        ),
    },
}
