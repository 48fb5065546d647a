"""Right answers to the exercises of lesson 18 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

SCATTER = "dist.reduce_scatter_single(mine, whole.grad)"
RIGHT = {
    "my_sharded_step": (
        body("""\
mine = torch.empty_like(master, dtype=whole.dtype)
dist.reduce_scatter(mine, list(whole.grad.chunk(world_size)))
master.grad = mine.to(master.dtype) / world_size
optimizer.step()
dist.all_gather(list(whole.data.chunk(world_size)), master.detach().to(whole.dtype))"""),
        edit(
            SCATTER, "dist.reduce_scatter_single(mine, whole.grad, async_op=True).wait()",
            "    dist.all_gather_single(whole.data,", "    with torch.no_grad():\n        dist.all_gather_single(whole,",
        ),
        edit(
            "mine.to(master.dtype) / dist.get_world_size()", "torch.zeros_like(master)",
            "    optimizer.step()", "    master.grad.add_(mine, alpha=1 / world_size)\n    optimizer.step()",
        ),
    ),
    "my_sharded_backward": (
        body("""\
under_way = {}
def share(whole):
    mine = torch.empty_like(whole.grad[: len(whole) // world_size])
    under_way[whole] = mine, dist.reduce_scatter_single(mine, whole.grad, async_op=True)
    under_way[whole][1].wait()
    mine /= world_size
    whole.grad = None
hooks = [whole.register_post_accumulate_grad_hook(share) for whole in wholes]
loss.backward()
for hook in hooks:
    hook.remove()
return [under_way[whole][0] for whole in wholes]"""),
        body("""\
parts = [None] * len(wholes)
def share(place):
    def hook(whole):
        parts[place] = whole.new_empty(len(whole) // world_size, whole.shape[1])
        dist.reduce_scatter_single(parts[place], whole.grad, dist.ReduceOp.AVG)
        whole.grad = None
    return hook
hooks = [w.register_post_accumulate_grad_hook(share(i)) for i, w in enumerate(wholes)]
loss.backward()
[hook.remove() for hook in hooks]
return parts"""),
        body("""\
parts, last = {}, []
def finish():
    for whole, mine, grad, work in last:
        work.wait()
        parts[whole] = mine / world_size
    last.clear()
def share(whole):
    finish()
    mine = torch.empty_like(whole.grad[: len(whole) // world_size])
    last.append((whole, mine, whole.grad, dist.reduce_scatter_single(mine, whole.grad, async_op=True)))
    whole.grad = None
hooks = [whole.register_post_accumulate_grad_hook(share) for whole in wholes]
loss.backward()
finish()
for hook in hooks:
    hook.remove()
return [parts[whole] for whole in wholes]"""),
    ),
    "MySharded": (
        edit("grad.T @ x)", "grad.T @ x, dist.ReduceOp.AVG)", "mine / dist.get_world_size()", "mine"),
        edit(
            "ctx.save_for_backward(x, part)", "ctx.x, ctx.part = x, part", "ctx.saved_tensors", "ctx.x, ctx.part",
            "x @ gathered(part).T", "torch.nn.functional.linear(x, gathered(part))",
        ),
        edit("        of_x = grad @ gathered(part)\n", "", "return of_x", "return grad @ gathered(part)"),
    ),
    "accumulate_sharded": (
        body("""\
for x, y in batches:
    loss = (x @ whole.T - y).square().mean() / len(batches)
    loss.backward()
mine = torch.empty_like(master)
dist.reduce_scatter_single(mine, whole.grad)
master.grad = mine / world_size
optimizer.step()
dist.all_gather_single(whole.data, master.detach())"""),
        edit(
            "master.grad = torch.zeros_like(master)", "total = 0", "master.grad += mine / dist.get_world_size()", "total = total + mine",
            "    optimizer.step()", "    master.grad = total / world_size\n    optimizer.step()",
        ),
    ),
    "clip_parts": (
        body("""\
square = torch.cat([part.view(-1) for part in parts]).square().sum()
dist.all_reduce(square)
norm = square.item() ** 0.5
for part in parts:
    part.mul_(most / norm if norm > most else 1)"""),
        body("""\
square = torch.stack(torch._foreach_norm(parts)).square().sum()
dist.all_reduce(square)
torch._foreach_mul_(parts, float((most / (square.sqrt() + 1e-6)).clamp(max=1)))"""),
        body("""\
import numpy as np
square = torch.tensor(sum(float(np.sum(part.numpy() ** 2)) for part in parts), dtype=torch.float64)
dist.all_reduce(square)
if square > most**2:
    for part in parts:
        part.numpy()[...] *= most / np.sqrt(square.item())"""),
    ),
}  # fmt: skip
