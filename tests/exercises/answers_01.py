"""Right answers to the exercises of lesson 01 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "shift_right": (
        body("""\
theirs = torch.zeros_like(mine)
arriving = dist.irecv(theirs, (rank - 1) % world_size)
dist.send(mine, (rank + 1) % world_size)
arriving.wait()
return theirs"""),
        body("""\
theirs, right, left = torch.empty_like(mine), (rank + 1) % world_size, (rank - 1) % world_size
if rank == 0:
    dist.send(mine, right)
    dist.recv(theirs, left)
else:
    dist.recv(theirs, left)
    dist.send(mine, right)
return theirs"""),
        edit("isend(mine,", "isend(mine.clone(),", "return theirs", "return theirs.numpy()"),
    ),
    "swap": (
        body("""\
theirs = torch.empty_like(mine)
if rank % 2 == 0:
    dist.send(mine, dst=rank + 1)
    dist.recv(theirs, src=rank + 1)
else:
    dist.recv(theirs, src=rank - 1)
    dist.send(mine, dst=rank - 1)
return theirs"""),
        body("""\
theirs = mine.clone()
both = [dist.P2POp(dist.isend, mine.clone(), rank ^ 1), dist.P2POp(dist.irecv, theirs, rank ^ 1)]
[request.wait() for request in dist.batch_isend_irecv(both)]
return theirs"""),
        body("""\
there = torch.zeros_like(mine)
r = dist.irecv(there, src=rank ^ 1)
s = dist.isend(mine, dst=rank ^ 1)
r.wait(), s.wait()
return there.tolist()"""),
    ),
    "message_size": (
        body("return (alpha / beta) / (1 / share - 1)"),
        body("a, b, s = (torch.tensor(v) for v in (alpha, beta, share))\nreturn s * a / (b - s * b)"),
        body("""\
low, high = 0.0, 1e9
for _ in range(100):
    n = (low + high) / 2
    low, high = (n, high) if n * beta / (alpha + n * beta) < share else (low, n)
return n"""),
        body("import numpy as np\nreturn np.array([alpha]) / (np.array([beta]) * (1 / share - 1))"),
    ),
}
