"""Right answers to the exercises of lesson 04 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

FLAT = """\
flat = torch.cat([p.grad.flatten() for p in model.parameters()])
dist.all_reduce(flat)
for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
    p.grad.copy_(part.view_as(p))"""
RIGHT = {
    "my_sync_initial_weights": (
        body("""\
for group in (model.parameters(), model.buffers()):
    for tensor in group:
        dist.broadcast(tensor.data, 0)"""),
        body("""\
state = model.state_dict()
flat = torch.cat([t.double().flatten() for t in state.values()])
dist.broadcast(flat, src=0)
for t, part in zip(state.values(), flat.split([t.numel() for t in state.values()])):
    t.copy_(part.view_as(t))"""),
        body("""\
told = [model.state_dict()]
dist.broadcast_object_list(told, src=0)
model.load_state_dict(told[0])"""),
    ),
    "my_sync_gradients": (
        body("""\
from torch.nn.utils import parameters_to_vector
grads = [p.grad for p in model.parameters()]
flat = parameters_to_vector(grads) / world_size
dist.all_reduce(flat)
for g, part in zip(grads, flat.split([g.numel() for g in grads])):
    g[:] = part.reshape(g.shape)"""),
        body("""\
flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
dist.all_reduce(flat, async_op=True).wait()
start = 0
for p in model.parameters():
    p.grad = flat[start : start + p.numel()].reshape(p.shape).div(dist.get_world_size())
    start += p.numel()
return flat"""),
        body("""\
grads = [p.grad for p in model.parameters()]
works = [dist.all_reduce(g, async_op=True) for g in grads]
for work in works:
    work.wait()
torch._foreach_div_(grads, world_size)"""),
    ),
    "my_train_epoch": (
        body("""\
from torch.nn.functional import cross_entropy
losses = []
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)).tolist()
for start in range(0, len(x), batch_size):
    batch = order[start : start + batch_size]
    for p in model.parameters():
        p.grad = None
    loss = cross_entropy(model(x[batch]), y[batch])
    loss.backward()
    sync(model)
    optimizer.step()
    losses += [float(loss)]
return losses"""),
        body("""\
order, losses = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)), []
optimizer.zero_grad()
for batch in torch.split(order, batch_size):
    losses.append(torch.nn.functional.cross_entropy(model(x[batch]), y[batch]))
    losses[-1].backward()
    sync(model)
    optimizer.step()
    optimizer.zero_grad()
return [loss.item() for loss in losses]"""),
    ),
    "mend_the_step": (
        edit("step()\n", "step()\n    dist.all_reduce(loss.detach())\n    return loss.item() / world_size\n"),
        edit("loss.backward()", "(loss / world_size).backward()", "sync_gradients(model)",
             "for p in model.parameters():\n        dist.all_reduce(p.grad)"),
        edit("loss.backward()", "own = torch.autograd.grad(loss, [*model.parameters()])", "sync_gradients(model)",
             "for p, g in zip(model.parameters(), own):\n        dist.all_reduce(g)\n        p.grad = g / world_size"),
    ),
    "accumulate": (
        edit(" / len(batches)", "", "sync_gradients(model)", "for p in model.parameters():\n        p.grad /= len(batches)\n"
             "        dist.all_reduce(p.grad)\n        p.grad /= dist.get_world_size()"),
        edit("len(batches)", "len(batches) / world_size", "sync_gradients(model)", FLAT.replace("\n", "\n    ")),
        body("""\
parameters = [*model.parameters()]
total = [torch.zeros_like(p) for p in parameters]
for x, y in batches:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    torch._foreach_add_(total, torch.autograd.grad(loss, parameters))
    del loss
for p, g in zip(parameters, total):
    p.grad = g / len(batches)
sync_gradients(model)"""),
    ),
}  # fmt: skip
