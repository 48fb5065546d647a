"""Answers to the exercises of lesson 15."""

SLOTS = "from labkit.schedule import Backward, Forward\n"
TIMED = (
    SLOTS
    + """\
slots = []
for stage in range(stages):
    time = {}
    for m in range(microbatches):
        start = 2 * stages * (m // room) + 2 * (m % room)
        time[Forward(m)] = start + stage
        time[Backward(m)] = start + 2 * stages - 1 - stage
    slots.append(sorted(time, key=time.get))
"""
)
CAPPED = (
    SLOTS
    + """\
slots = []
for stage in range(stages):
    ahead = min(stages - stage, room)
    own = [Forward(m) for m in range(ahead)]
    for m in range(microbatches):
        own.append(Backward(m))
        if m + ahead < microbatches:
            own.append(Forward(m + ahead))
    slots.append(own)
return slots
"""
)
EVERY = "every = range(microbatches)\n"

WRONG = {
    "pipeline_in_room": {
        "over budget, memory": (
            "from labkit.algorithms import gpipe\nreturn gpipe(stages, microbatches)",
            "in a world of 2, the schedule is not what was asked for\n  Rank 0 stores ",
        ),
        "over budget, 1F1B": (
            "from labkit.algorithms import one_forward_one_backward as f\nreturn f(stages, microbatches)",
            "Rank 0 stores 2 micro-batches, and has room for 1: slot 1 (F1) is the first with more.",
        ),
        "over budget, slots": (
            CAPPED,
            "in a world of 3, the schedule is not what was asked for\n  It takes ",
        ),
        "over budget, group by group": (
            SLOTS
            + """\
from labkit.algorithms import one_forward_one_backward
slots = [[] for _ in range(stages)]
for first in range(0, microbatches, room):
    count = min(room, microbatches - first)
    for own, more in zip(slots, one_forward_one_backward(stages, count)):
        own += [type(slot)(slot.microbatch + first) for slot in more]
return slots""",
            "in a world of 3, the schedule is not what was asked for\n  It takes ",
        ),
        "over budget, one at a time": (
            SLOTS + EVERY + "return [[s for m in every for s in (Forward(m), Backward(m))]] * stages",
            "slots, not at most",
        ),
        "backward before forward": (
            TIMED + "slots[1] = slots[1][::-1]\nreturn slots",
            "Rank 1 does B",
        ),
        "deadlock": (
            SLOTS
            + EVERY
            + "slots = [[s for m in every for s in (Forward(m), Backward(m))] for _ in range(stages)]\n"
            "slots[1][:4] = [Forward(0), Forward(1), Backward(0), Backward(1)]\nreturn slots",
            "Deadlock: rank 0 in slot 1 expects gradient 0 from rank 1, rank 1 in slot 1 expects activation "
            "1 from rank 0; each waits for the next.",
        ),
        "another order": (
            SLOTS
            + EVERY
            + "slots = [[s for m in every for s in (Forward(m), Backward(m))] for _ in range(stages)]\n"
            "slots[1] = [s for m in every[::-1] for s in (Forward(m), Backward(m))]\nreturn slots",
            "in slot 0, but rank 0 sends it activation 0 (its slot 0).",
        ),
        "a pass is missing": (
            TIMED + "slots[0].remove(Backward(2))\nreturn slots",
            "Rank 0 ends after slot ",
        ),
        "twice": (
            TIMED + "slots[1].append(Forward(0))\nreturn slots",
            "and has done it in slot 0.",
        ),
        "one micro-batch too many": (
            TIMED + "return [[*own, Forward(microbatches), Backward(microbatches)] for own in slots]",
            "and the last micro-batch is ",
        ),
        "only for four stages": (
            "from labkit.algorithms import gpipe\nreturn gpipe(4, microbatches)",
            "It has slots for 4 stages, not for 2.",
        ),
        "only the own stage": (
            TIMED + "return [own if s == rank else [] for s, own in enumerate(slots)]",
            "The ranks differ: every rank must return the slots of all stages.",
        ),
        "nothing returned": (TIMED, "of Forward(m) and Backward(m); it is None."),
        "names in place of slots": ("return [['F0', 'B0']] * stages", "it is [['F0', 'B0'], ['F0', 'B0']]."),
        "only rank 0 right": (
            TIMED + "return slots if rank == 0 else None",
            "deadlock: rank 1 finished the cell, and others wait for it",
        ),
        "a barrier as well": (
            TIMED + "torch.distributed.barrier()\nreturn slots",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "balance": {
        "equal numbers of layers": (
            "return [len(part) for part in torch.arange(len(seconds)).tensor_split(stages)]",
            " s is possible",
        ),
        "filled up to the mean": (
            """\
share, counts, time = sum(seconds) / stages, [0], 0
for one in seconds:
    if counts[-1] and time + one > share and len(counts) < stages:
        counts, time = [*counts, 0], 0
    counts[-1], time = counts[-1] + 1, time + one
return counts""",
            "the slowest stage takes ",
        ),
        "one layer each": ("return [1] * stages", "2 numbers were expected, 1 or more, with the sum 9"),
        "an empty stage": ("return [len(seconds)] + [0] * (stages - 1)", "it is [9, 0]"),
        "only rank 0 right": (
            "from labkit.exercises.lesson_15 import BALANCE\nnames = {}\nexec(BALANCE.solution, names)\n"
            "return names['balance'](seconds, stages) if rank == 0 else None",
            "rank 1 is wrong: 2 numbers were expected, 1 or more, with the sum 9; it is None",
        ),
        "the time, not the numbers": ("return max(seconds)", "rank 0 is wrong: 2 numbers were expected"),
        "over budget": (
            "from labkit.exercises.lesson_15 import BALANCE\nnames = {}\nexec(BALANCE.solution, names)\n"
            "torch.distributed.barrier()\nreturn names['balance'](seconds, stages)",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
}

RIGHT = {
    "pipeline_in_room": {
        "whatever is ready, backward first": SLOTS
        + """\
done, slots, now = {}, [[] for _ in range(stages)], 0
while len(done) < 2 * stages * microbatches:
    for s in range(stages):
        f = sum(isinstance(slot, Forward) for slot in slots[s])
        b = len(slots[s]) - f
        back = ("B", s + 1, b) if s + 1 < stages else ("F", s, b)
        if b < f and done.get(back, now) < now:
            slots[s].append(Backward(b))
            done["B", s, b] = now
        elif f < microbatches and f - b < room and (s == 0 or done.get(("F", s - 1, f), now) < now):
            slots[s].append(Forward(f))
            done["F", s, f] = now
    now += 1
return slots""",
        "as tuples": TIMED + "return tuple(map(tuple, slots))",
    },
    "balance": {
        "how much must the slowest take": """\
def counts(most):
    found, time = [0], 0
    for one in seconds:
        if time + one > most:
            found, time = [*found, 0], 0
        found[-1], time = found[-1] + 1, time + one
    return found
most = max(seconds)
while len(counts(most)) > stages:
    most += 1
found = counts(most)
while len(found) < stages:
    i = max(range(len(found)), key=found.__getitem__)
    found[i : i + 1] = [1, found[i] - 1]
return found""",
        "the first stage, then the rest": """\
def best(first, parts):
    if parts == 1:
        return sum(seconds[first:]), [len(seconds) - first]
    ways = []
    for cut in range(first + 1, len(seconds) - parts + 2):
        slowest, counts = best(cut, parts - 1)
        ways.append((max(slowest, sum(seconds[first:cut])), [cut - first, *counts]))
    return min(ways)
return best(0, stages)[1]""",
    },
}
