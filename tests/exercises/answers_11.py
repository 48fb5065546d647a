"""Right answers to the exercises of lesson 11 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "serve_fresh": (
        edit("set(range", "dict.fromkeys(range", "_size()))", "_size()), 0)", "for _ in", "for version in",
             "worker in current", "current[worker] == version", "current = idle", "current |= dict.fromkeys(idle, version + 1)"),
        edit("    current = set(", "    workers, late = set(", "_size()))", "_size())), set()", "send_weights(current",
             "send_weights(workers", "worker in current", "worker not in late", "current = idle", "late = workers - idle"),
        # Who comes too late is answered at once, with the newest weights.
        edit("came, idle = {}, set()", "came = {}", "            idle.add(worker)\n", "", "came[worker] = gradient",
             "came[worker] = gradient\n            else:\n                send_weights([worker], weights)\n"
             "                current.add(worker)", "send_weights(idle,", "send_weights(came,", "current = idle", "current = set(came)"),
    ),
    "mean_step": (
        body("""\
total = torch.zeros(2)
for step in times:
    total += torch.stack([step.kthvalue(needed).values, torch.ones(())])
dist.all_reduce(total)
return (total[0] / total[1]).item()"""),
        body("""\
done = torch.topk(times, needed, dim=1, largest=False).values.max(dim=1).values
mine = torch.stack([done.sum(), torch.tensor(len(done)).float()])
everyone = [torch.empty(2) for _ in range(world_size)]
dist.all_gather(everyone, mine)
sums = sum(everyone)
return sums[0] / sums[1]"""),
        body("""\
import numpy
done = numpy.sort(times.numpy(), axis=1)[:, needed - 1]
total = torch.tensor([done.sum(), len(done)], dtype=torch.float64)
dist.all_reduce(total, async_op=True).wait()
return numpy.divide(*total.numpy())"""),
    ),
    "first_mean": (
        edit("total, message = torch.zeros_like(mine), torch.empty_like(mine)", "came = []", "        dist.recv(message)\n",
             "        came.append(torch.empty_like(mine))\n        dist.recv(came[-1])\n",
             "        if arrived <= needed:\n            total += message\n", "", "return total", "return sum(came[:needed])"),
        body("""\
import time
if rank > 0:
    if rank == late:
        time.sleep(seconds)
    dist.send(mine, 0)
    return mine
boxes = {w: torch.empty_like(mine) for w in range(1, world_size)}
works = {w: dist.irecv(box, w) for w, box in boxes.items()}
first = []
while len(first) < needed:
    first += [w for w in works if w not in first and works[w].is_completed()][: needed - len(first)]
for work in works.values():
    work.wait()
return torch.stack([boxes[w] for w in first]).mean(dim=0)"""),
    ),
}  # fmt: skip
