"""Right answers to the exercises of lesson 20 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_merge": (
        body("""\
most = torch.maximum(log, other_log)
a, b = (log - most).exp(), (other_log - most).exp()
total = (a + b).unsqueeze(-1)
return (a.unsqueeze(-1) * out + b.unsqueeze(-1) * other_out) / total, most + (a + b).log()"""),
        body("""\
logs = torch.stack([log, other_log])
shares = logs.softmax(0).unsqueeze(-1)
return [shares[0] * out + shares[1] * other_out, logs.logsumexp(0)]"""),
        body("""\
share = torch.sigmoid(log - other_log)[..., None]
return torch.lerp(other_out, out, share), torch.logaddexp(other_log, log)"""),
    ),
    "my_ring_attention": (
        body("""\
left, right = (rank - 1) % world_size, (rank + 1) % world_size
whole = None
for step in range(world_size):
    works = []
    if step < world_size - 1:
        new_k, new_v = torch.empty_like(k), torch.empty_like(v)
        works = [dist.irecv(new_k, left), dist.irecv(new_v, left), dist.isend(k, right), dist.isend(v, right)]
    part = attend(q, k, v)
    whole = merge(*whole, *part) if whole else part
    for work in works:
        work.wait()
    k, v = new_k, new_v
return whole[0]"""),
        body("""\
block = torch.stack([k, v])
out, log = None, None
for step in range(world_size - 1):
    coming = torch.empty_like(block)
    both = [
        dist.P2POp(dist.isend, block, (rank + 1) % world_size),
        dist.P2POp(dist.irecv, coming, (rank - 1) % world_size),
    ]
    works = dist.batch_isend_irecv(both)
    part = attend(q, block[0], block[1])
    out, log = part if out is None else merge(out, log, *part)
    [work.wait() for work in works]
    block = coming
return merge(out, log, *attend(q, *block))[0]"""),
        edit("out, log = merge(out, log, *attend(q, *block))", "other, more = attend(q, *block)\n"
             "        both = torch.logaddexp(log, more)\n"
             "        out = (log - both).exp()[..., None] * out + (more - both).exp()[..., None] * other\n"
             "        log = both"),
    ),
    "causal_ring": (
        body("""\
left, right = (rank - 1) % world_size, (rank + 1) % world_size
block = torch.stack([k, v])
ahead = torch.full((q.shape[-2], q.shape[-2]), -torch.inf).triu(1)
out, log = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)
for step in range(world_size):
    source = (rank - step) % world_size
    if source <= rank:
        out, log = merge(out, log, *attend(q, *block, ahead if source == rank else 0.0))
    if step < world_size - 1:
        coming = torch.empty_like(block)
        sending = dist.isend(block, right)
        dist.recv(coming, left)
        sending.wait()
        block = coming
return out"""),
        edit("if step <= rank", "if (rank - step) % world_size < rank"),
        body("""\
block, works = torch.stack([k, v]), []
whole = attend(q, k, v, torch.full((q.shape[-2], q.shape[-2]), -torch.inf).triu(1))
for step in range(rank + 1):  # nobody gets what lies ahead
    if rank < world_size - 1:
        works.append(dist.isend(block, rank + 1))
    if step < rank:
        coming = torch.empty_like(block)
        dist.recv(coming, rank - 1)
        block = coming
        whole = merge(*whole, *attend(q, *block))
for work in works:
    work.wait()
return whole[0]"""),
    ),
    "my_send_to_experts": (
        edit("    out = torch.empty_like(x)\n    out[order] = answers\n    return out",
             "    return answers[order.argsort()]"),
        edit("out[order] = answers", "for i, at in enumerate(order.tolist()):\n        out[at] = answers[i]"),
        body("""\
there = [x[choice == e] for e in range(world_size)]
sizes = torch.tensor([len(part) for part in there])
sizes_here = torch.empty_like(sizes)
dist.all_to_all_single(sizes_here, sizes)
here = [x.new_empty(n, x.shape[1]) for n in sizes_here.tolist()]
dist.all_to_all(here, there)
back = [torch.empty_like(part) for part in there]
dist.all_to_all(back, [expert(part) for part in here])
out = torch.empty_like(x)
for e, part in enumerate(back):
    out[choice == e] = part
return out"""),
    ),
}  # fmt: skip
