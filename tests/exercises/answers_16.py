"""Right answers to the exercises of lesson 16 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

GATHER = """\
every = [torch.empty_like({0}) for _ in range(dist.get_world_size())]
        dist.all_gather(every, {0})
        total = sum(every)"""
RING = """\
R, r = dist.get_world_size(), dist.get_rank()
        total, mine = {0}.clone(), {0}.clone()
        for _ in range(R - 1):
            sending, came = dist.isend(mine, (r + 1) % R), torch.empty_like(mine)
            dist.recv(came, (r - 1) % R)
            sending.wait()
            total, mine = total + came, came"""
LARGEST = "largest = scores.amax(1)\ndist.all_reduce(largest, dist.ReduceOp.MAX)\n"

RIGHT = {
    "MyCopyToRanks": (
        edit(
            "grad.clone()", "grad + 0",
            "dist.all_reduce(total)", "work = dist.all_reduce(total, async_op=True)\n        work.wait()",
        ),
        edit("x.view_as(x)", "x.clone()", "total = grad.clone()\n        dist.all_reduce(total)", GATHER.format("grad")),
        edit("x.view_as(x)", "x", "total = grad.clone()\n        dist.all_reduce(total)", RING.format("grad")),
    ),
    "MySumOverRanks": (
        edit("total = part.clone()\n        dist.all_reduce(total)", GATHER.format("part"), "return grad", "return grad.clone()"),
        edit("total = part.clone()\n        dist.all_reduce(total)", RING.format("part"), "return grad", "return 1.0 * grad"),
        edit("part.clone()", "part.detach().clone()", "return grad", "return grad.view_as(grad)"),
    ),
    "row_parallel": (
        edit("x @ weight", "x @ weight + bias / world_size", "return part + bias", "return part"),
        edit("x @ weight", "x @ weight + bias * (rank == 0)", "return part + bias", "return part"),
        edit("return part + bias", "return (part + bias).numpy()"),
        edit("x @ weight", "torch.nn.functional.linear(x, weight.T)", "return part + bias", "part += bias\n    return part"),
    ),
    "my_heads": (
        body("""\
size = len(weight) // 3 // world_size
return torch.cat([part[rank * size : (rank + 1) * size] for part in weight.chunk(3)])"""),
        body("""\
head = weight.shape[0] // (3 * heads)
own = range(rank * heads // world_size, (rank + 1) * heads // world_size)
rows = [(way * heads + h) * head + i for way in range(3) for h in own for i in range(head)]
return weight[rows]"""),
        body("""\
import numpy as np
return np.concatenate([np.split(part, world_size)[rank] for part in np.split(weight.numpy(), 3)])"""),
    ),
    "split_cross_entropy": (
        body("""\
wanted = torch.zeros(len(scores), dtype=scores.dtype)
for i, t in enumerate((target - rank * scores.shape[1]).tolist()):
    if 0 <= t < scores.shape[1]:
        wanted[i] = scores[i, t]
own = scores.logsumexp(1)
largest = own.clone()
dist.all_reduce(largest, dist.ReduceOp.MAX)
both = torch.stack([(own - largest).exp(), wanted])
dist.all_reduce(both)
return (both[0].log() + largest - both[1]).mean()"""),
        body(LARGEST + """\
shifted = scores - largest[:, None]
sums = torch.empty(2, len(scores), dtype=scores.dtype)
first = rank * scores.shape[1]
sums[1] = 0
for i in range(scores.shape[1]):
    sums[1] += shifted[:, i] * (target == first + i)
sums[0] = shifted.exp_().sum(1)
dist.all_reduce(sums)
return torch.mean(torch.log(sums[0]) - sums[1]).item()"""),
        body("""\
import numpy as np
first, n = rank * scores.shape[1], len(scores)
own = scores.logsumexp(1)
every = [torch.empty_like(own) for _ in range(world_size)]
dist.all_gather(every, own)
wanted = sum(scores[i, t - first].item() for i, t in enumerate(target.tolist()) if 0 <= t - first < scores.shape[1])
wanted = torch.tensor(wanted, dtype=torch.float64)
dist.all_reduce(wanted)
return (np.logaddexp.reduce([one.numpy() for one in every]).sum() - wanted.numpy()) / n"""),
    ),
}  # fmt: skip
