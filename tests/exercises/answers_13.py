"""Answers to the exercises of lesson 13."""

HOOKED = """\
place = {{p: b for b, bucket in enumerate(buckets) for p in bucket}}
missing, under_way = [len(bucket) for bucket in buckets], []
def ready(p):
    missing[place[p]] -= 1
    if missing[place[p]] == 0:
        bucket = buckets[place[p]]
        flat = torch.cat([q.grad.flatten() for q in bucket])
        {begin}
hooks = [p.register_post_accumulate_grad_hook(ready) for p in place]
loss.backward()
for bucket, flat, work in under_way:
    work.wait()
    {divide}
    for q, mean in zip(bucket, flat.split([q.numel() for q in bucket])):
        {back}
"""
ASYNC = "under_way.append((bucket, flat, dist.all_reduce(flat, async_op=True)))"
GOOD = {"begin": ASYNC, "divide": "flat /= world_size", "back": "q.grad.copy_(mean.view_as(q))"}
REMOVE = "for hook in hooks:\n    hook.remove()\n"
AFTER = """\
loss.backward()
for bucket in buckets:
    flat = torch.cat([q.grad.flatten() for q in bucket])
    dist.all_reduce(flat)
    flat /= world_size
    for q, mean in zip(bucket, flat.split([q.numel() for q in bucket])):
        q.grad.copy_(mean.view_as(q))
"""


def hooked(**other):
    return HOOKED.format(**GOOD | other) + REMOVE


LARGEST = "for g in sorted(grads, key=lambda g: g.norm().item(), reverse=True):\n    dist.all_reduce(g)\n"
DIVIDE = "for g in grads:\n    g /= world_size\n"
WRONG = {
    "my_backward": {
        "no divisor": (hooked(divide="pass"), "This is the sum. Divide it by the number of ranks."),
        "divided twice": (hooked(divide="flat /= world_size**2"), "divided by the number of ranks twice"),
        "not copied back": (hooked(back="pass"), "The rank's own gradients are still in p.grad"),
        "after backward": (AFTER, "nothing is hidden: when the backward pass came to the first layer, 2"),
        "waiting in the hook": (
            hooked(begin="dist.all_reduce(flat)\n        under_way.append((bucket, flat, None))").replace(
                "    work.wait()\n", ""
            ),
            "the backward pass stands still in your hook",
        ),
        "hooks left": (HOOKED.format(**GOOD), "your hooks are still there, and the next step adds others"),
        "waiting for another in the hook": (
            hooked(begin="dist.all_reduce(torch.ones(1))\n        " + ASYNC),
            "the backward pass stands still in your hook",
        ),
        "over budget: a second round": (
            hooked() + "dist.barrier()",
            "over budget: collective calls on each rank 4, limit 3\nOne all-reduce for each bucket",
        ),
        "only rank 0 right": (
            AFTER.replace("dist.all_reduce(flat)", "dist.reduce(flat, dst=0)").replace(
                "flat /= world_size", "flat /= world_size if rank == 0 else 1"
            ),
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            hooked().replace("if missing[place[p]] == 0:", "if missing[place[p]] == 0 and rank > 0:"),
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
        "no backward": ("loss.detach()", "got      'a missing gradient'"),
    },
    "sync_largest_first": {
        "as it was": (LARGEST + DIVIDE, "one rank's largest was added to the other's largest"),
        "smallest first": (
            LARGEST.replace(", reverse=True", "") + DIVIDE,
            "one rank's largest was added to the other's largest",
        ),
        "largest element first": (
            LARGEST.replace("norm()", "square().sum()") + DIVIDE,
            "one rank's largest was added to the other's largest",
        ),
        "not divided either": (LARGEST, "The order is each rank's own, and the division is lost."),
        "no divisor": ("for g in grads:\n    dist.all_reduce(g)", "This is the sum. Divide it by"),
        "copies": (
            "for g in grads:\n    dist.all_reduce(g.clone())\n" + DIVIDE,
            "Each rank has its own gradients, divided. all_reduce must get the tensors themselves",
        ),
        "a new list": (
            "total = torch.stack(grads)\ndist.all_reduce(total)\ngrads = list(total / world_size)",
            "Each rank still has its own gradients.",
        ),
        "over budget": (
            "for g in grads:\n    dist.barrier()\n    dist.all_reduce(g)\n" + DIVIDE,
            "over budget: collective calls on each rank 6, limit 4\nOne all-reduce for each tensor",
        ),
        "only rank 0 right": (
            "for g in grads:\n    dist.reduce(g, dst=0)\n    if rank == 0:\n        g /= world_size",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            "for g in grads[: len(grads) - (rank == 0)]:\n    dist.all_reduce(g)\n" + DIVIDE,
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
    },
}

RIGHT = {
    "my_backward": {
        "one closure for each bucket": """\
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
    handle.remove()""",
        "by the mean of the backend": hooked(
            begin="under_way.append((bucket, flat, dist.all_reduce(flat, dist.ReduceOp.AVG, async_op=True)))",
            divide="pass",
        ),
    },
    "sync_largest_first": {
        "in one tensor": """\
together = torch.stack(grads)
dist.all_reduce(together, dist.ReduceOp.AVG)
for g, mean in zip(grads, together):
    g.copy_(mean)""",
        "the largest sum of norms first": """\
norms = torch.stack([g.norm() for g in grads])
dist.all_reduce(norms)
works = [dist.all_reduce(grads[i], async_op=True) for i in norms.argsort(descending=True).tolist()]
for work in works:
    work.wait()
for g in grads:
    g.div_(dist.get_world_size())""",
    },
}
