"""Right answers to the exercises of lesson 21 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

ADDED_UP = edit(
    "all_reduce(p.grad)", "all_reduce(p.grad.view(-1), async_op=True).wait()",
    "p.data.copy_(master)", "p.data = master.to(p.dtype)",
)  # fmt: skip

RIGHT = {
    "my_master_step": (
        body("""\
g = torch.cat([p.grad.flatten() for p in model.parameters()])
dist.all_reduce(g)
sizes = [p.numel() for p in model.parameters()]
for p, master, part in zip(model.parameters(), masters, g.float().split(sizes)):
    master.sub_(part.view_as(master), alpha=rate / world_size)
    p.data = master.to(p.dtype)"""),
        body("""\
works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
for work, p, master in zip(works, model.parameters(), masters):
    work.wait()
    master -= p.grad.float() * (rate / dist.get_world_size())
with torch.no_grad():
    for p, master in zip(model.parameters(), masters):
        p.copy_(master)"""),
        edit("master -= rate * p.grad.float() / dist.get_world_size()",
             "master.numpy()[:] -= rate * p.grad.float().numpy() / world_size"),
        ADDED_UP,
    ),
    "scaled_update": (
        edit("mean = p.grad.float() / (scale * dist.get_world_size())",
             "mean = p.grad.float() / scale\n        mean /= dist.get_world_size()"),
        body("""\
for p, master in zip(model.parameters(), masters):
    dist.all_reduce(p.grad)
    master.grad = p.grad.float() / (scale * world_size)
torch.optim.SGD(masters, lr=rate).step()
for p, master in zip(model.parameters(), masters):
    p.data.copy_(master)"""),
        ADDED_UP,
    ),
    "my_scaled_step": (
        body("""\
g = torch.cat([p.grad.flatten() for p in model.parameters()])
dist.all_reduce(g)
if g.isinf().any() or g.isnan().any():
    return 0.5 * scale, 0
parts = g.float().split([p.numel() for p in model.parameters()])
for p, master, part in zip(model.parameters(), masters, parts):
    master -= rate / world_size / scale * part.view_as(master)
    p.data.copy_(master)
return [scale, good + 1] if good < 19 else [scale * 2, 0]"""),
        edit("    if not all(p.grad.isfinite().all() for p in model.parameters()):",
             "    fine = torch.tensor([float(all(p.grad.isfinite().all() for p in model.parameters()))])\n"
             "    dist.all_reduce(fine, dist.ReduceOp.MIN)\n    if fine.item() == 0:"),
        edit("    if not all(p.grad.isfinite().all() for p in model.parameters()):",
             "    largest = max(p.grad.abs().max().item() for p in model.parameters())\n"
             "    total = sum(p.grad.float().sum() for p in model.parameters())\n"
             "    if largest == float('inf') or total != total:"),
    ),
}  # fmt: skip
