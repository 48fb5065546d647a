"""Answers to the exercises of lesson 07."""

COSTS = """\
P, log2 = 2 ** (R.bit_length() - 1), (R - 1).bit_length()
ring = 2 * (R - 1) * alpha + 2 * (R - 1) / R * n * beta
tree = 2 * log2 * (alpha + n * beta)
halving = 2 * (P.bit_length() - 1) * alpha + 2 * (P - 1) / P * n * beta
if R > P:
    halving += 2 * (alpha + n * beta)
"""
BEST = "return min((ring, 'ring'), (tree, 'tree'), (halving, 'halving'))[1]"
TREE = """\
total, received, distance = x.clone(), torch.empty_like(x), 1
while distance < world_size:
    if rank % (2 * distance) == distance:
        dist.send(total, rank - distance)
    elif rank % (2 * distance) == 0 and rank + distance < world_size:
        dist.recv(received, rank + distance)
        total += received
    distance += distance
"""
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
    "my_fastest": {
        "always the ring": ("return 'ring'", "The ring has 2(R - 1) steps, and each has its latency"),
        "always halving": ("return 'halving'", "100 is no power of two: two more steps of the whole tensor"),
        "always the tree": ("return 'tree'", "In each of its steps the tree sends the whole tensor"),
        "halving without its two steps": (
            COSTS.replace("if R > P", "if False") + BEST,
            "two more steps of the whole tensor",
        ),
        "the tree with bytes once": (
            COSTS.replace("log2 * (alpha + n * beta)", "log2 * alpha + n * beta") + BEST,
            "In each of its steps the tree sends the whole tensor",
        ),
        "ring or tree alone": (
            COSTS + "return 'ring' if ring < tree else 'tree'",
            "The tree sends the whole tensor in each of its steps; halving takes as many",
        ),
        "by bytes alone": (
            COSTS.replace("alpha", "0") + BEST,
            "The ring has 2(R - 1) steps",
        ),
        "the slowest": (COSTS + BEST.replace("min(", "max("), "in a world of 2, "),
        "another name": ("return 'halving and doubling'", "Return 'ring', 'tree' or 'halving'"),
        "the seconds": (COSTS + "return min(ring, tree, halving)", "Return 'ring', 'tree' or 'halving'"),
        "nothing returned": (COSTS, "without `return` returns None"),
        "only rank 0 right": (
            COSTS + "if rank > 0:\n    return None\n" + BEST,
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            COSTS + "dist.barrier()\n" + BEST,
            "over budget: collective calls on each rank 1, limit 0\nEach rank can compute that alone",
        ),
        "deadlock": (
            "if rank == 0:\n    dist.barrier()\n" + COSTS + BEST,
            "deadlock: rank 1 finished the cell, and others wait for it",
        ),
    },
    "sum_in_a_tree": {
        "as it was, in other words": (
            TREE.replace("distance < world_size:\n    if", "distance <= world_size // 2:\n    if")
            + "return total",
            "in a world of 3, rank 0 is wrong",
        ),
        "the last rank is told apart": (
            TREE.replace("distance < world_size:\n    if", "2 * distance <= world_size:\n    if")
            + "return total",
            "The last rank's tensor is not in the sum",
        ),
        "one step short": (
            TREE.replace("distance < world_size:\n    if", "2 * distance < world_size:\n    if")
            + "return total",
            "in a world of 2, rank 0 is wrong",
        ),
        "a bound for four ranks": (
            TREE.replace("distance < world_size:\n    if", "2 * distance <= world_size + 1:\n    if")
            + "return total",
            "in a world of 4, the sum is right, but with 5 ranks it would lack the tensor of rank 4\n"
            "The loop must be right for any number of ranks",
        ),
        "two steps at most": (
            TREE.replace("distance < world_size:\n    if", "distance < min(world_size, 3):\n    if")
            + "return total",
            "with 5 ranks it would lack the tensor of rank 4",
        ),
        "three steps at most": (
            TREE.replace("distance < world_size:\n    if", "distance < min(world_size, 8):\n    if")
            + "return total",
            "with 9 ranks it would lack the tensor of rank 8",
        ),
        "its own once more": (TREE + "return total + x", "Rank 0's own tensor is in the sum twice"),
        "nothing added": ("return x.clone()", "That is the tensor of rank 0 alone"),
        "the mean": (TREE + "return total / world_size", "This is the mean"),
        "only x is sent": (TREE.replace("send(total", "send(x"), "in a world of 2, "),
        "what was sent is lost": (
            TREE.replace("dist.send(total", "dist.send(x") + "return total",
            "in a world of 4, rank 0 is wrong",
        ),
        "a partner that is not there": (
            TREE.replace(" and rank + distance < world_size", "") + "return total",
            "in a world of 3, ",
        ),
        "deadlock": (
            TREE.replace("dist.send(total, rank - distance)", "dist.recv(received, rank - distance)")
            + "return total",
            "in a world of 2, deadlock: each waits for another",
        ),
        "nothing returned": (TREE, "without `return` returns None"),
        "over budget, a collective": (
            "total = x.clone()\ndist.all_reduce(total)\nreturn total",
            "over budget: collective calls on each rank 1, limit 0\nMend the tree",
        ),
        "over budget, messages": (
            TREE + "if rank == 0:\n    dist.send(total, 1)\nif rank == 1:\n    dist.recv(total, 0)\n"
            "return total",
            "over budget: messages in all 2, limit 1",
        ),
        "over budget, one after the other": (
            "if rank > 0:\n    dist.send(x, 0)\n    return x\ntotal, y = x.clone(), torch.empty_like(x)\n"
            "for r in range(1, world_size):\n    dist.recv(y, r)\n    total += y\nreturn total",
            "over budget: messages one after the other",
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
            "rank 0 in send to rank 1, inside labkit.check('all_reduce_schedule')",
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
    "my_fastest": {
        "two numbers each": """\
from math import ceil, log2
down, up = int(log2(R)), ceil(log2(R))
more = 2 * (up - down)
chains = {
    "halving": (2 * down + more, 2 * (1 - 2**-down) + more),
    "ring": (2 * R - 2, 2 - 2 / R),
    "tree": (2 * up, 2 * up),
}
times = {name: m * alpha + v * n * beta for name, (m, v) in chains.items()}
return sorted(times, key=times.get)[0]""",
        "the tree is never the fastest": COSTS + "return 'ring' if ring < halving else 'halving'",
    },
    "sum_in_a_tree": {
        "by powers": """\
total = x.clone()
for distance in [2**k for k in range((world_size - 1).bit_length())]:
    if rank & (2 * distance - 1) == distance:
        dist.send(total, rank - distance)
    elif rank % (2 * distance) == 0 and rank + distance < world_size:
        y = torch.empty_like(x)
        dist.recv(y, rank + distance)
        total = total + y
return total""",
        "from the far end": """\
total, y = x.clone(), torch.empty_like(x)
distance = 2 ** ((world_size - 1).bit_length() - 1)
while distance:
    if distance <= rank < 2 * distance:
        dist.send(total, rank - distance)
    elif rank < distance and rank + distance < world_size:
        dist.recv(y, rank + distance)
        total += y
    distance //= 2
return total""",
        "by its whole name": TREE.replace("dist.", "torch.distributed.") + "return total",
        "by requests": TREE.replace("dist.recv(received,", "work = dist.irecv(received,")
        .replace("dist.send(total,", "work = dist.isend(total,")
        .replace("rank - distance)\n", "rank - distance)\n        work.wait()\n")
        .replace("rank + distance)\n", "rank + distance)\n        work.wait()\n")
        + "return total",
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
