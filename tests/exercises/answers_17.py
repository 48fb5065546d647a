"""Right answers to the exercises of lesson 17 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

PIPELINE = """\
from labkit.algorithms import gpipe, one_forward_one_backward, run_pipeline
from torch.utils.checkpoint import checkpoint
"""

RIGHT = {
    "my_one_forward_one_backward": (
        body("""\
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
return slots"""),
        body("""\
def own(stage):
    ahead, done = stages - stage, 0
    for m in range(microbatches):
        if m >= ahead:
            yield Backward(done)
            done += 1
        yield Forward(m)
    yield from map(Backward, range(done, microbatches))
return tuple(tuple(own(stage)) for stage in range(stages))"""),
        body("""\
time = lambda slot, s: 2 * slot.microbatch + (s if type(slot) is Forward else 2 * stages - 1 - s)
every = [make(m) for m in range(microbatches) for make in (Forward, Backward)]
return [sorted(every, key=lambda slot: time(slot, s)) for s in range(stages)]"""),
    ),
    "gpipe_step": (
        edit(
            "kept, sent = [], []", "kept, sent, came = [], [], torch.empty_like(like)",
            "dist.recv(x,", "dist.recv(came,", "x.requires_grad_()", "x = came.clone().requires_grad_()",
        ),
        body("""\
from labkit.algorithms import forward_pass
sent = []
kept = [forward_pass(stage, loss, x, y, like, sent) for x, y in batches]
for x, output in kept:
    backward_pass(x, output, sent)
for work in sent:
    work.wait()"""),
        edit("in kept:", "in reversed(kept):"),
    ),
    "pipeline_in_room": (
        body("""\
free, slots = [0] * microbatches, [[] for _ in range(stages)]
for m in range(microbatches):
    after = free[m - 1] + 2 if m else 0
    free[m] = max(after, free[m - room] + 2 * stages) if m >= room else after
for s in range(stages):
    own = [(t + s, Forward(m)) for m, t in enumerate(free)]
    own += [(t + 2 * stages - 1 - s, Backward(m)) for m, t in enumerate(free)]
    slots[s] = [slot for _, slot in sorted(own, key=lambda one: one[0])]
return slots"""),
        edit("return slots", "return tuple(map(tuple, slots))"),
    ),
    "recomputing_step": (
        body(PIPELINE + """\
slots = gpipe(world_size, len(batches))[rank]
run_pipeline(slots, lambda x: checkpoint(stage, x, use_reentrant=False), batches, loss, like)"""),
        body(PIPELINE + """\
slots = one_forward_one_backward(world_size, len(batches))[rank]
run_pipeline(slots, lambda x: checkpoint(stage, x, use_reentrant=False), batches, loss, like)"""),
        edit("zip(inputs, batches)", "zip(inputs[::-1], batches[::-1])"),
        body("""\
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
[one.wait() for one in sending]"""),
    ),
}  # fmt: skip
