"""Answers to the exercises of lesson 06."""

BEGIN = "left, right = (rank - 1) % world_size, (rank + 1) % world_size\n"
WHOLE = (
    BEGIN
    + """\
chunks = x.view(-1).tensor_split(world_size)
for step in range(2 * (world_size - 1)):
    own = chunks[(rank - step - 1) % world_size]
    y = torch.empty_like(own)
    sending = dist.isend(chunks[(rank - step) % world_size], right)
    dist.recv(y, left)
    sending.wait()
    if step < world_size - 1:
        own += y
    else:
        own.copy_(y)
"""
)


def halves(number: str) -> str:
    """A ring whose second half is a loop of its own: in `step` it sends the chunk of that number."""
    came = number.replace("rank", "left")
    return (
        WHOLE.replace("2 * (world_size - 1)", "world_size - 1")
        + f"""\
for step in range(world_size - 1):
    y = torch.empty_like(chunks[({came}) % world_size])
    sending = dist.isend(chunks[({number}) % world_size], right)
    dist.recv(y, left)
    sending.wait()
    chunks[({came}) % world_size].copy_(y)
"""
    )


GATHER = (
    BEGIN
    + """\
parts = [mine] * world_size
for step in range(world_size - 1):
    y = torch.empty_like(mine)
    sending = dist.isend(parts[(rank - step) % world_size], right)
    dist.recv(y, left)
    sending.wait()
    parts[(rank - step - 1) % world_size] = y
"""
)
RING = """\
left, right = (rank - 1) % world_size, (rank + 1) % world_size
chunks = x.clone().chunk(world_size)
for step in range(world_size - 1):
    y = torch.empty_like(chunks[0])
    sending = dist.isend(chunks[(rank - step - 1) % world_size], right)
    dist.recv(y, left)
    sending.wait()
    chunks[(rank - step - 2) % world_size].add_(y)
"""
LESSON = RING.replace("step - 1)", "step)").replace("step - 2)", "step - 1)")
"""The ring as the lesson has it: it ends with the chunk after the rank's own."""
WRONG = {
    "my_all_reduce_ring": {
        "nothing in x": (WHOLE.replace("x.view(-1)", "x.clone().view(-1)"), "x is as it was. Work in place"),
        "the mean": (WHOLE + "x /= world_size", "This is the mean: an all-reduce only adds"),
        "the first half alone": (
            WHOLE.replace("2 * (world_size - 1)", "world_size - 1"),
            "the second half, which hands the whole sums on, is missing or too short",
        ),
        "one step short": (
            WHOLE.replace("range(2 * (world_size - 1))", "range(2 * (world_size - 1) - 1)"),
            "the second half, which hands the whole sums on, is missing or too short",
        ),
        "added in both halves": (
            WHOLE.replace("step < world_size - 1", "True"),
            "You add in the second half, too",
        ),
        "replaced in both halves": (
            WHOLE.replace("step < world_size - 1", "False"),
            "Either the first half replaces, where it should add",
        ),
        "the second half begins anew": (
            WHOLE.replace("for step in", "for turn in")
            .replace("    own = ", "    step = turn % (world_size - 1)\n    own = ", 1)
            .replace("if step <", "if turn <"),
            "or the second half begins with a chunk that is no whole sum yet",
        ),
        "the second half begins with the wrong chunk": (
            halves("rank - step"),
            "or the second half begins with a chunk that is no whole sum yet",
        ),
        "with the wrong chunk, and in the wrong direction": (
            halves("rank + step"),
            "after the first half rank r has the whole sum of chunk r + 1",
        ),
        "the second half in the wrong direction": (
            halves("rank + 1 + step"),
            "and then takes the others in the wrong direction. Hand on the chunk that has just come",
        ),
        "its own tensor twice": (
            "mine = x.clone()\n" + WHOLE + "x += mine",
            "The rank's own tensor counts twice",
        ),
        "own chunk in every step": (
            WHOLE.replace("[(rank - step) % world_size]", "[rank]").replace(
                "[(rank - step - 1) % world_size]", "[left]"
            ),
            "in a world of 2, ranks 0-1 are wrong",
        ),
        "off by one neighbour": (
            WHOLE.replace("(y, left)", "(y, right)"),
            "in a world of 3, ",
        ),
        "chunks of one length": (
            WHOLE.replace("torch.empty_like(own)", "torch.empty_like(chunks[0])"),
            "in a world of 2, ",
        ),
        "as many chunks as ceil leaves": (
            WHOLE.replace("tensor_split", "chunk"),
            "IndexError: tuple index out of range",
        ),
        "only float64": (
            WHOLE.replace("torch.empty_like(own)", "torch.empty(own.shape, dtype=torch.float64)"),
            "in a world of 2, ",
        ),
        "deadlock": (
            WHOLE.replace("sending = dist.isend", "dist.send").replace("    sending.wait()\n", ""),
            "in a world of 2, deadlock: each waits for another\nrank 0 in send to rank 1",
        ),
        "only rank 0 right": (WHOLE + "if rank > 0:\n    x.zero_()", "in a world of 2, rank 1 is wrong"),
        "lost message": (
            WHOLE + "if rank == 0:\n    dist.isend(x[:1].clone(), 1)",
            "rank 0 sent rank 1 a message that nobody received",
        ),
        "over budget, a collective": (
            "dist.all_reduce(x)",
            "over budget: collective calls on each rank 1, limit 0\nThe collective is what you build",
        ),
        "over budget, bytes": (
            "mine, y = x.clone(), torch.empty_like(x)\nleft, right = (rank - 1) % world_size, "
            "(rank + 1) % world_size\nfor _ in range(2 * (world_size - 1)):\n"
            "    sending = dist.isend(mine, right)\n    dist.recv(y, left)\n    sending.wait()\n"
            "    mine = y.clone()\n    if _ < world_size - 1:\n        x += y",
            "over budget: bytes sent by the busiest rank",
        ),
        "over budget, by way of rank 0": (
            "y = torch.empty_like(x)\nif rank > 0:\n    dist.send(x, 0)\n    dist.recv(x, 0)\nelse:\n"
            "    for r in range(1, world_size):\n        dist.recv(y, r)\n        x += y\n"
            "    for r in range(1, world_size):\n        dist.send(x, r)",
            "over budget: bytes sent by the busiest rank",
        ),
    },
    "all_gather_ring": {
        "as it was": (
            GATHER.replace("parts[(rank - step) % world_size], right", "mine, right")
            + "return torch.stack(parts)",
            "in a world of 3, ranks 0-2 are wrong",
        ),
        "as it was, in other words": (
            BEGIN + "parts = [mine.clone() for _ in range(world_size)]\nfor step in range(1, world_size):\n"
            "    y = mine.clone()\n    s = dist.isend(mine, right)\n    dist.recv(y, left)\n    s.wait()\n"
            "    parts[rank - step] = y\nreturn torch.stack(parts)",
            "left neighbour's tensor in all places but its own",
        ),
        "in the order of arrival": (
            GATHER + "return torch.stack([parts[(rank - s) % world_size] for s in range(world_size)])",
            "in the order in which they came. Put that of rank p in place p",
        ),
        "one step short": (
            GATHER.replace("range(world_size - 1)", "range(world_size - 2)") + "return torch.stack(parts)",
            "in a world of 2, ranks 0-1 are wrong",
        ),
        "nothing sent": ("return torch.stack([mine] * world_size)", "Every place has the rank's own tensor"),
        "the wrong part handed on": (
            GATHER.replace(
                "parts[(rank - step) % world_size], right", "parts[(rank + step) % world_size], right"
            )
            + "return torch.stack(parts)",
            "in a world of 3, ranks 0-2 are wrong",
        ),
        "only rank 0 right": (
            GATHER + "return torch.stack(parts) if rank == 0 else None",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            GATHER.replace("sending = dist.isend", "dist.send").replace("    sending.wait()\n", "")
            + "return torch.stack(parts)",
            "in a world of 2, deadlock: each waits for another",
        ),
        "nothing returned": (GATHER, "without `return` returns None"),
        "over budget, a collective": (
            "parts = [torch.empty_like(mine) for _ in range(world_size)]\ndist.all_gather(parts, mine)\n"
            "return torch.stack(parts)",
            "over budget: collective calls on each rank 1, limit 0\nThe collective is what you mend",
        ),
        "over budget, all parts in each step": (
            BEGIN + "held = torch.stack([mine] * world_size)\nfor step in range(world_size - 1):\n"
            "    y = torch.empty_like(held)\n    sending = dist.isend(held, right)\n    dist.recv(y, left)\n"
            "    sending.wait()\n    own = held[rank].clone()\n    held = y\n    held[rank] = own\n"
            "return held",
            "in a world of ",
        ),
    },
    "reduce_scatter": {
        "off by one chunk": (
            LESSON + "return chunks[(rank + 1) % world_size]",
            "the sum of the chunk after the rank's own, as in the ring of the lesson",
        ),
        "own chunk": (LESSON + "return chunks[rank]", "no other rank's numbers are in it"),
        "the whole sum": ("all_reduce_ring(x)\nreturn x", "the sum of the whole tensor. Return chunk `rank`"),
        "wrong divisor": (RING + "return chunks[rank] / world_size", "This is the mean: reduce-scatter only"),
        "its own chunk twice": (
            RING + "return chunks[rank] + x.chunk(world_size)[rank]",
            "The rank's own chunk is in it twice",
        ),
        "one step short": (
            RING.replace("range(world_size - 1)", "range(max(1, world_size - 2))") + "return chunks[rank]",
            "in a world of 3, ranks 0-2 are wrong",
        ),
        "off by one neighbour": (
            RING.replace("(y, left)", "(y, right)") + "return chunks[rank]",
            "in a world of 3, deadlock: each waits for another\n",
        ),
        "deadlock": (
            RING.replace("sending = dist.isend", "dist.send").replace("    sending.wait()\n", "")
            + "return chunks[rank]",
            "in a world of 2, deadlock: each waits for another\nrank 0 in send to rank 1",
        ),
        "lost message": (
            RING + "if rank == 0:\n    dist.isend(chunks[0], 1)\nreturn chunks[rank]",
            "rank 0 sent rank 1 a message that nobody received",
        ),
        "only rank 0 right": (
            RING + "return chunks[0]",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget, bytes": (
            "x = x.clone()\nall_reduce_ring(x)\nreturn x.chunk(world_size)[rank]",
            "over budget: bytes sent by the busiest rank",
        ),
        "over budget, collective": (
            "x = x.clone()\ndist.all_reduce(x)\nreturn x.chunk(world_size)[rank]",
            "over budget: collective calls on each rank 1, limit 0\nThe collective is what you build",
        ),
        "over budget, steps": (
            """\
parts, y = x.clone().chunk(world_size), torch.empty_like(x[: len(x) // world_size])
for root in range(world_size):
    for sender in range(world_size):
        if rank == sender != root:
            dist.send(parts[root], root)
        elif rank == root != sender:
            dist.recv(y, sender)
            parts[root].add_(y)
return parts[rank]""",
            "over budget: messages one after the other 2, limit 1\nIn a step all ranks send at the same time",
        ),
    },
}

RIGHT = {
    "my_all_reduce_ring": {
        "in two halves, to the left": """\
R = world_size
chunks = x.view(-1).tensor_split(R)
for add in True, False:
    for step in range(R - 1):
        out, into = (rank + step + (not add) * (R - 1)) % R, (rank + step + 1 + (not add) * (R - 1)) % R
        y = torch.empty_like(chunks[into])
        both = [
            dist.P2POp(dist.isend, chunks[out], (rank - 1) % R),
            dist.P2POp(dist.irecv, y, (rank + 1) % R),
        ]
        [work.wait() for work in dist.batch_isend_irecv(both)]
        chunks[into].copy_(y + chunks[into] if add else y)""",
        "with irecv, by places in x": """\
flat, R = x.flatten(), world_size
edges = [len(flat) * c // R for c in range(R + 1)]
def part(c):
    return flat[edges[c % R] : edges[c % R + 1]]
for step in range(2 * R - 2):
    y = torch.empty_like(part(rank - step - 1))
    works = [dist.irecv(y, (rank - 1) % R), dist.isend(part(rank - step), (rank + 1) % R)]
    for work in works:
        work.wait()
    part(rank - step - 1).copy_(y if step >= R - 1 else y + part(rank - step - 1))
x.copy_(flat.view_as(x))""",
    },
    "all_gather_ring": {
        "what came goes on": BEGIN + """\
parts, passing = {rank: mine}, mine
for step in range(1, world_size):
    received = torch.empty_like(mine)
    sending = dist.isend(passing, right)
    dist.recv(received, left)
    sending.wait()
    parts[(rank - step) % world_size] = passing = received
return torch.stack([parts[r] for r in range(world_size)])""",
        "to everybody at once": """\
parts = torch.stack([mine] * world_size)
others = [r for r in range(world_size) if r != rank]
works = [dist.isend(mine, r) for r in others] + [dist.irecv(parts[r], r) for r in others]
for work in works:
    work.wait()
return parts""",
    },
    "reduce_scatter": {
        "all at once": """\
mine, others = x.chunk(world_size), [r for r in range(world_size) if r != rank]
parts = [torch.empty_like(mine[rank]) for _ in others]
requests = [dist.isend(mine[r], dst=r) for r in others]
requests += [dist.irecv(part, src=r) for part, r in zip(parts, others)]
for request in requests:
    request.wait()
return mine[rank] + sum(parts)""",
        "to the left": """\
n, x = len(x) // world_size, x.clone()
for step in range(world_size - 1):
    out, into = (rank + step + 1) % world_size, (rank + step + 2) % world_size
    y = x.new_empty(n)
    messages = [
        dist.P2POp(dist.isend, x[out * n : (out + 1) * n], (rank - 1) % world_size),
        dist.P2POp(dist.irecv, y, (rank + 1) % world_size),
    ]
    [work.wait() for work in dist.batch_isend_irecv(messages)]
    x[into * n : (into + 1) * n] += y
return x[rank * n : (rank + 1) * n]""",
    },
}  # fmt: skip
