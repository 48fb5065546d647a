"""Right answers to the exercises of lesson 06 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_all_reduce_ring": (
        body("""\
R = world_size
chunks = x.view(-1).tensor_split(R)
for add in True, False:
    for step in range(R - 1):
        out, into = (rank - step + (not add)) % R, (rank - step - 1 + (not add)) % R
        y = torch.empty_like(chunks[into])
        both = [
            dist.P2POp(dist.isend, chunks[out], (rank + 1) % R),
            dist.P2POp(dist.irecv, y, (rank - 1) % R),
        ]
        [work.wait() for work in dist.batch_isend_irecv(both)]
        chunks[into].copy_(y + chunks[into] if add else y)"""),
        body("""\
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
x.copy_(flat.view_as(x))"""),
    ),
    "all_gather_ring": (
        body("""\
left, right = (rank - 1) % world_size, (rank + 1) % world_size
parts, passing = {rank: mine}, mine
for step in range(1, world_size):
    received = torch.empty_like(mine)
    sending = dist.isend(passing, right)
    dist.recv(received, left)
    sending.wait()
    parts[(rank - step) % world_size] = passing = received
return torch.stack([parts[r] for r in range(world_size)])"""),
        body("""\
parts = torch.stack([mine] * world_size)
others = [r for r in range(world_size) if r != rank]
works = [dist.isend(mine, r) for r in others] + [dist.irecv(parts[r], r) for r in others]
for work in works:
    work.wait()
return parts"""),
    ),
    "reduce_scatter": (
        body("""\
mine, others = x.chunk(world_size), [r for r in range(world_size) if r != rank]
parts = [torch.empty_like(mine[rank]) for _ in others]
requests = [dist.isend(mine[r], dst=r) for r in others]
requests += [dist.irecv(part, src=r) for part, r in zip(parts, others)]
for request in requests:
    request.wait()
return mine[rank] + sum(parts)"""),
        body("""\
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
return x[rank * n : (rank + 1) * n]"""),
        edit("return chunks[rank]", "return chunks[rank].numpy()"),
    ),
}  # fmt: skip
