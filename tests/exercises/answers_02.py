"""Right answers to the exercises of lesson 02 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "sum_by_turns": (
        body("""\
others = [r for r in range(world_size) if r != rank]
came = [torch.empty_like(x) for _ in others]
requests = [dist.isend(x, r) for r in others] + [dist.irecv(c, r) for c, r in zip(came, others)]
for request in requests:
    request.wait()
return x + sum(came)"""),
        body("total = x.clone()\nall_reduce_naive(total)\nreturn total"),
        body("""\
total, theirs = x.numpy().copy(), torch.empty_like(x)
for step in range(1, world_size):
    to, source = (rank + step) % world_size, (rank - step) % world_size
    both = [dist.P2POp(dist.isend, x, to), dist.P2POp(dist.irecv, theirs, source)]
    [work.wait() for work in dist.batch_isend_irecv(both)]
    total += theirs.numpy()
return total"""),
    ),
    "mean_loss": (
        body("""\
all_losses = [torch.empty_like(loss) for _ in range(world_size)]
dist.all_gather(all_losses, loss)
return sum(x.item() for x in all_losses) / len(all_losses)"""),
        edit("loss.clone()", "loss / dist.get_world_size()", "total / world_size", "total"),
        edit("(total)", "(total, op=dist.ReduceOp.AVG)", "total / world_size", "total.squeeze()"),
        edit("dist.all_reduce", "all_reduce_reduce_broadcast"),
    ),
    "all_reduce_in_chunks": (
        body("""\
chunks = x.chunk(world_size)
mine, others = chunks[rank], [r for r in range(world_size) if r != rank]
parts = [torch.empty_like(mine) for _ in others]
requests = [dist.isend(chunks[r].clone(), dst=r) for r in others]
requests += [dist.irecv(part, src=r) for part, r in zip(parts, others)]
[request.wait() for request in requests]
mine += sum(parts)
requests = [dist.isend(mine, dst=r) for r in others] + [dist.irecv(chunks[r], src=r) for r in others]
[request.wait() for request in requests]"""),
        body("""\
n, right, left = len(x) // world_size, (rank + 1) % world_size, (rank - 1) % world_size
y = torch.empty_like(x[:n])
for step in range(2 * (world_size - 1)):
    out, into = ((rank - step) % world_size, (rank - step - 1) % world_size)
    request = dist.isend(x[out * n : (out + 1) * n].clone(), dst=right)
    dist.recv(y, src=left)
    request.wait()
    there = x[into * n : (into + 1) * n]
    there.copy_(there + y if step < world_size - 1 else y)
return x"""),
    ),
}
