"""Answers to the exercises of lesson 06."""

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
SCHEDULE = "from labkit.schedule import Recv, Reduce, Schedule, Send\n"
STEPS = (
    SCHEDULE
    + """\
steps = [[] for _ in range(world_size)]
for r in range(world_size):
    left, right = (r - 1) % world_size, (r + 1) % world_size
    for n in range(2 * (world_size - 1)):
        take = Reduce if n < world_size - 1 else Recv
        steps[r].append((Send(left, (r + n) % world_size), take(right, (r + n + 1) % world_size)))
"""
)
WRONG = {
    "reduce_scatter": {
        "off by one chunk": (
            LESSON + "return chunks[(rank + 1) % world_size]",
            "the sum of the chunk after the rank's own, as in the ring of the lesson",
        ),
        "own chunk": (LESSON + "return chunks[rank]", "no other rank's numbers are in it"),
        "the whole sum": ("all_reduce_ring(x)\nreturn x", "the sum of the whole tensor. Return chunk `rank`"),
        "wrong divisor": (RING + "return chunks[rank] / world_size", "This is the mean: reduce-scatter only"),
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
            "all_reduce_ring(x)\nreturn x.chunk(world_size)[rank]",
            "over budget: bytes sent by the busiest rank",
        ),
        "over budget, collective": (
            "dist.all_reduce(x)\nreturn x.chunk(world_size)[rank]",
            "over budget: collective calls on each rank 1, limit 0\nThe collective is what you build",
        ),
        "over budget, steps": (
            """\
parts, y = x.chunk(world_size), torch.empty_like(x[: len(x) // world_size])
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
    "all_reduce_schedule": {
        "deadlock": (
            STEPS.replace("steps[r].append((", "steps[r].extend((") + "return steps",
            "Deadlock: rank 0 in step 0 sends chunk 0 to rank 1, rank 1 in step 0 sends chunk 1 to rank 0; "
            "each waits for the next.",
        ),
        "lost message": (
            STEPS + "steps[0][-1] = steps[0][-1][:1]\nreturn steps",
            "Rank 1 sends chunk 0 to rank 0 in step 1, which never receives it.",
        ),
        "never sent": (
            STEPS + "steps[1][0] = steps[1][0][1:]\nreturn steps",
            "Rank 0 waits in step 1 for chunk 0 from rank 1, which never sends it.",
        ),
        "wrong chunk": (
            STEPS.replace("(r + n + 1) %", "(r - n - 1) %") + "return steps",
            "in a world of 3, the schedule is not what was asked for\n"
            "  Rank 2 wants chunk 1 in step 0, but rank 0 sends it chunk 0 (its step 0).",
        ),
        "off by one chunk": (
            STEPS.replace("(r + n + 1) %", "(r + n) %") + "return steps",
            "Rank 1 wants chunk 1 in step 0, but rank 0 sends it chunk 0 (its step 0).",
        ),
        "off by one neighbour": (
            STEPS.replace("take(right", "take(left") + "return steps",
            "Rank 0 sends chunk 0 to rank 2 in step 0, which never receives it.",
        ),
        "a rank that is not there": (
            SCHEDULE + "return [[Send(r + 1, r)] for r in range(world_size)]",
            "Rank 1 in step 0 names rank 2, and the last is 1: send 1 to r2.",
        ),
        "the first half alone": (
            STEPS + "return [own[: world_size - 1] for own in steps]",
            "Rank 0 ends with step 0, and chunk 0 lacks the part of rank 1.",
        ),
        "added twice": (
            STEPS.replace("Reduce if n < world_size - 1 else Recv", "Reduce") + "return steps",
            "Rank 0 counts rank 0's part of chunk 0 twice from step 1 on.",
        ),
        "over budget, bytes": (
            SCHEDULE + "every = range(world_size)\n"
            "return [[tuple(op for o in every if o != r for op in (Send(o, range(world_size)), "
            "Reduce(o, range(world_size))))] for r in every]",
            "Rank 0 sends 13,440 bytes, not at most 8,960: step 0 is the first over the budget.",
        ),
        "over budget, a tree": (
            "from labkit.algorithms import tree\nreturn tree(world_size)",
            "Rank 0 sends 13,440 bytes, not at most 8,960: step 3 is the first over the budget.",
        ),
        "over budget, steps": (
            STEPS + "return [[*own, ()] for own in steps]",
            "Rank 0 takes 3 steps, not at most 2: step 2 is the first over the budget.",
        ),
        "only for four ranks": (
            "from labkit.algorithms import ring\nreturn ring(4)",
            "It has steps for 4 ranks, not for 2.",
        ),
        "only rank 0 right": (
            STEPS + "me = torch.distributed.get_rank()\nreturn steps if me == 0 else [[]] * world_size",
            "deadlock: rank 1 finished the cell, and others wait for it\n"
            "rank 0 in send to rank 1, line 1: labkit.check('all_reduce_schedule')",
        ),
        "own steps alone": (
            STEPS + "me = torch.distributed.get_rank()\n"
            "return [own if r == me else [] for r, own in enumerate(steps)]",
            "Rank 0 sends chunk 0 to rank 1 in step 0, which never receives it.\n"
            "The ranks differ: every rank must return the steps of all ranks.",
        ),
        "nothing returned": (
            STEPS,
            "A list of steps for each rank was expected, of Send, Recv and Reduce; it is None.",
        ),
        "not a schedule": (
            "return [['send']] * world_size",
            "of Send, Recv and Reduce; it is [['send'], ['send']].",
        ),
        "a collective as well": (
            STEPS + "torch.distributed.barrier()\nreturn steps",
            "over budget: collective calls on each rank 1, limit 0\nReturn the steps; the check runs them.",
        ),
    },
}

RIGHT = {
    "reduce_scatter": {
        "all at once": """\
mine, others = x.chunk(world_size), [r for r in range(world_size) if r != rank]
parts = [torch.empty_like(mine[rank]) for _ in others]
requests = [dist.isend(mine[r], dst=r) for r in others]
requests += [dist.irecv(part, src=r) for part, r in zip(parts, others)]
for request in requests:
    request.wait()
return mine[rank] + sum(parts)""",
        "to the left, in place": """\
n = len(x) // world_size
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
    "all_reduce_schedule": {
        "all at once, in two steps": SCHEDULE
        + """\
others = [[o for o in range(world_size) if o != r] for r in range(world_size)]
return [
    [
        [op for o in others[r] for op in (Send(o, o), Reduce(o, r))],
        [op for o in others[r] for op in (Send(o, r), Recv(o, o))],
    ]
    for r in range(world_size)
]""",
        "the library's, to the right": "from labkit.algorithms import ring\nreturn ring(world_size)",
        "two halves, joined": SCHEDULE
        + """\
R = world_size
def half(take, start):
    return Schedule(
        [
            [(Send((r + 1) % R, (r - s - start) % R), take((r - 1) % R, (r - s - start - 1) % R))
             for s in range(R - 1)]
            for r in range(R)
        ],
        chunks=R,
    )
return half(Reduce, 1) + half(Recv, 0)""",
    },
}  # fmt: skip
