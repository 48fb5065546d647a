"""Right answers to the exercises of lesson 13 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_backward": (
        body("""\
begun, handles = [], []
def watch(bucket):
    left = set(bucket)
    def hook(p):
        left.discard(p)
        if not left:
            flat = torch.cat([q.grad.reshape(-1) for q in bucket]) / world_size
            begun.append((bucket, flat, dist.all_reduce(flat, async_op=True)))
    handles.extend(p.register_post_accumulate_grad_hook(hook) for p in bucket)
for bucket in buckets:
    watch(bucket)
loss.backward()
for bucket, flat, work in begun:
    work.wait()
    at = 0
    for p in bucket:
        p.grad = flat[at : at + p.numel()].reshape(p.shape)
        at += p.numel()
for handle in handles:
    handle.remove()"""),
        edit("all_reduce(flat, async", "all_reduce(flat, dist.ReduceOp.AVG, async", "(flat / dist.get_world_size())", "flat"),
        body("""\
begun = {}
def begin(b, grads):
    flat = torch.cat([g.flatten() for g in grads])
    begun[b] = flat, dist.all_reduce(flat, async_op=True)
multi = torch.autograd.graph.register_multi_grad_hook
handles = [multi(bucket, lambda grads, b=b: begin(b, grads)) for b, bucket in enumerate(buckets)]
loss.backward()
for b, (flat, work) in begun.items():
    work.wait()
    for p, part in zip(buckets[b], flat.split([p.numel() for p in buckets[b]])):
        p.grad = part.view(p.shape) / world_size
[handle.remove() for handle in handles]"""),
    ),
    "sync_largest_first": (
        body("""\
together = torch.stack(grads)
dist.all_reduce(together, dist.ReduceOp.AVG)
for g, mean in zip(grads, together):
    g.copy_(mean)"""),
        body("""\
norms = torch.stack([g.norm() for g in grads])
dist.all_reduce(norms)
works = [dist.all_reduce(grads[i], async_op=True) for i in norms.argsort(descending=True).tolist()]
for work in works:
    work.wait()
for g in grads:
    g.div_(dist.get_world_size())"""),
        body("""\
everyone = [None] * world_size
dist.all_gather_object(everyone, [g.numpy() for g in grads])
for g, layer in zip(grads, zip(*everyone)):
    g[:] = torch.from_numpy(sum(layer) / world_size)"""),
    ),
}  # fmt: skip
