"""Answers to the exercises of lesson 17."""

from textwrap import dedent

from labkit.exercises.lessons.recomputation import ONE_BUFFER, RECOMPUTING_STEP
from labkit.exercises.lessons.rooms import PIPELINE_IN_ROOM
from labkit.exercises.lessons.schedules import MY_1F1B


def body(exercise):
    """What its solution has below the def."""
    return dedent(exercise.solution.partition(":\n")[2])


SLOTS = "from labkit.schedule import Backward, Forward\n"
TIMED = SLOTS + body(PIPELINE_IN_ROOM).removesuffix("return slots\n")
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
PIPELINE = SLOTS + "from labkit.algorithms import gpipe, one_forward_one_backward, run_pipeline\n"
RECOMPUTING = body(RECOMPUTING_STEP)
EVERY = "every = range(microbatches)\n"
ONE = SLOTS + body(MY_1F1B)
OWN_BUFFER = body(ONE_BUFFER)
ONE_FOR_ALL = OWN_BUFFER.replace(
    "kept, sent = [], []", "kept, sent, came = [], [], torch.empty_like(like)"
).replace("x = torch.empty_like(like)", "x = came.detach()")

WRONG = {
    "my_one_forward_one_backward": {
        "as GPipe": (
            SLOTS + EVERY + "return [[*map(Forward, every), *map(Backward, every)] for _ in range(stages)]",
            "micro-batches at once, and 2 are enough: after K - s forwards",
        ),
        "all as far ahead": (
            ONE.replace("stages - stage", "stages"),
            "the schedule is not what was asked for",
        ),
        "one short: deadlock": (
            ONE.replace("stages - stage,", "stages - stage - 1,"),
            "Rank 1 does B0 in slot 0, before F0",
        ),
        "one at a time": (
            SLOTS + EVERY + "return [[slot for m in every for slot in (Forward(m), Backward(m))]"
            " for _ in range(stages)]",
            "It takes ",
        ),
        "own list alone": (
            ONE.replace("return slots", "return slots[rank]"),
            "A list of slots for each stage",
        ),
        "last forgotten": (
            ONE.replace("return slots", "slots[-1].pop()\nreturn slots"),
            "not what was asked for",
        ),
        "only rank 0 right": (
            ONE.replace("return slots", "return slots if rank == 0 else slots[::-1]"),
            "The ranks differ: every rank must return the slots of all stages",
        ),
        "nothing returned": (ONE.replace("return slots", ""), "it is None"),
        "over budget": (
            "dist.barrier()\n" + ONE,
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "gpipe_step": {
        "one buffer": (
            ONE_FOR_ALL,
            "Rank 0, which receives no input, is right. What does `x` of micro-batch 0",
        ),
        "one buffer, moved": (
            ONE_FOR_ALL.replace("x.requires_grad_()", "x = x.view_as(x).requires_grad_()"),
            "Each micro-batch needs a tensor of its own",
        ),
        "the last alone": (
            OWN_BUFFER.replace("    backward_pass(", "    stage.zero_grad()\n    backward_pass("),
            "are wrong",
        ),
        "sends not waited for": (
            OWN_BUFFER.replace("for work in sent:\n    work.wait()", "return sent"),
            "never waits for its isend",
        ),
        "deadlock": (
            OWN_BUFFER.replace("if rank > 0:", "if rank > 1:"),
            "rank 1 raised an error for which the others wait in vain",
        ),
        "only rank 0 right": (
            OWN_BUFFER.replace("x = torch.empty_like(like)", "x = torch.zeros_like(like)").replace(
                "dist.recv(x, rank - 1)", "dist.recv(torch.empty_like(x), rank - 1)"
            ),
            "are wrong",
        ),
        "over budget": (
            OWN_BUFFER + "dist.barrier()",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
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
        "over budget, what was drawn is told": (
            CAPPED,
            "\n  That was for 3 stages, ",
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
            "and room for 1.\nThe ranks differ: every rank must return the slots of all stages.",
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
    "recomputing_step": {
        "over budget, nothing computed again": (
            PIPELINE + "run_pipeline(gpipe(world_size, len(batches))[rank], stage, batches, loss, like)",
            "in a world of 2, every rank is right, but over budget: bytes of new tensors at once ",
        ),
        "over budget, 1F1B": (
            PIPELINE
            + "slots = one_forward_one_backward(world_size, len(batches))\n"
            + "run_pipeline(slots[rank], stage, batches, loss, like)",
            "Of each micro-batch keep what the stage receives, and no graph.",
        ),
        "over budget, one at a time": (
            PIPELINE
            + "slots = [s for m in range(len(batches)) for s in (Forward(m), Backward(m))]\n"
            + "run_pipeline(slots, stage, batches, loss, like)",
            "in a world of 4, every rank is right, but over budget: messages one after the other ",
        ),
        "over budget, every activation sent twice": (
            RECOMPUTING[: RECOMPUTING.index("for x, (_")]
            + "for x, y in batches:\n"
            + "    backward_pass(*forward_pass(stage, loss, x, y, like, sent), sent)\n"
            + "for work in sent:\n    work.wait()",
            "limit 14\nEach activation is sent twice: forward_pass receives and sends. Recompute with",
        ),
        "over budget, the whole batch": (
            "x, y = (torch.cat(part) for part in zip(*batches))\n"
            "batches, like = [(x, y)], x\n"
            "mean = loss\nloss = lambda output, y: mean(output, y) * len(x) / 64\n" + RECOMPUTING,
            "over budget: bytes of new tensors at once ",
        ),
        "over budget, barrier": (
            RECOMPUTING + "dist.barrier()",
            "over budget: collective calls on each rank 1, limit 0\nMessages between neighbours are enough.",
        ),
        "deadlock": (
            """\
for x, y in batches:
    x = torch.empty_like(like)
    dist.recv(x, (rank - 1) % world_size)
    dist.send(stage(x).detach(), (rank + 1) % world_size)""",
            "deadlock: each waits for another\nrank 0 in recv from rank 1, line 4: dist.recv(",
        ),
        "own input": (
            RECOMPUTING.replace(
                "like, sent)[0])", "like, sent)[0])\ninputs = [x.clone() for x, _ in batches]"
            ).replace("output = stage(x)", "output = stage(x.requires_grad_())"),
            "Each stage used x from `batches`.",
        ),
        "only the last": (
            RECOMPUTING.replace("    output = stage", "    stage.zero_grad()\n    output = stage"),
            "This is the gradient of the last micro-batch alone",
        ),
        "only forward": (
            RECOMPUTING[: RECOMPUTING.index("for x, (_")],
            "ranks 0-1 are wrong\n  rank 0 expected ",
        ),
        "another order on one rank": (
            RECOMPUTING.replace(
                "for x, (_",
                "if rank == 1:\n    inputs, batches = inputs[::-1], batches[::-1]\nfor x, (_",
            ),
            " wrong\n  rank 0 expected ",
        ),
        "no loss": (
            RECOMPUTING.replace("if rank == world_size - 1", "if False"),
            "grad can be implicitly created only for scalar outputs",
        ),
    },
}

RIGHT = {
    "my_one_forward_one_backward": {
        "by time": SLOTS
        + """\
slots = []
for s in range(stages):
    forwards, backwards = iter(range(microbatches)), iter(range(microbatches))
    order = ["F"] * min(stages - s, microbatches) + ["B", "F"] * microbatches
    own = []
    for kind in order:
        m = next(forwards if kind == "F" else backwards, None)
        if m is not None:
            own.append((Forward if kind == "F" else Backward)(m))
    slots.append(own)
return slots""",
        "fewer ahead than allowed on paper": SLOTS
        + """\
def own(stage):
    ahead, done = stages - stage, 0
    for m in range(microbatches):
        if m >= ahead:
            yield Backward(done)
            done += 1
        yield Forward(m)
    yield from map(Backward, range(done, microbatches))
return [list(own(stage)) for stage in range(stages)]""",
    },
    "gpipe_step": {
        "a clone": ONE_FOR_ALL.replace("x.requires_grad_()", "x = x.clone().requires_grad_()"),
        "by forward_pass": """\
from labkit.algorithms import forward_pass
sent = []
kept = [forward_pass(stage, loss, x, y, like, sent) for x, y in batches]
for x, output in kept:
    backward_pass(x, output, sent)
for work in sent:
    work.wait()""",
    },
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
    "recomputing_step": {
        "by torch.utils.checkpoint": PIPELINE
        + """\
from torch.utils.checkpoint import checkpoint
slots = gpipe(world_size, len(batches))[rank]
run_pipeline(slots, lambda x: checkpoint(stage, x, use_reentrant=False), batches, loss, like)""",
        "1F1B": PIPELINE
        + """\
from torch.utils.checkpoint import checkpoint
slots = one_forward_one_backward(world_size, len(batches))[rank]
run_pipeline(slots, lambda x: checkpoint(stage, x, use_reentrant=False), batches, loss, like)""",
        "the last one first": RECOMPUTING.replace("zip(inputs, batches)", "zip(inputs[::-1], batches[::-1])"),
        "in plain messages": """\
left, right = rank - 1, rank + 1
inputs, sending = [], []
for x, _ in batches:
    if rank > 0:
        x = torch.empty_like(like)
        dist.irecv(x, left).wait()
    inputs.append(x)
    if right < world_size:
        with torch.no_grad():
            sending.append(dist.isend(stage(x), right))
while inputs:
    x, y = inputs.pop(0).requires_grad_(), batches[-1 - len(inputs)][1]
    output = stage(x)
    if right < world_size:
        gradient = torch.empty_like(output)
        dist.recv(gradient, right)
        output.backward(gradient)
    else:
        loss(output, y).backward()
    if rank > 0:
        sending.append(dist.isend(x.grad, left))
[one.wait() for one in sending]""",
    },
}
