"""Right answers to the exercises of lesson 08 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_serve_asynchronous": (
        body("""\
left, pulled, now, told = len(workers), {}, 0, []
while left > 0:
    worker, verb, gradient = receive(weights)
    if verb == PUSH:
        told.append([worker, now - pulled[worker]])
        weights.grad = gradient * scale(now - pulled[worker])
        optimizer.step()
        now += 1
    elif verb == PULL:
        dist.send(weights.detach(), worker)
        pulled[worker] = now
    else:
        left -= 1
return told"""),
        body("""\
ages, told, finished = dict.fromkeys(workers, 0), [], 0
while finished < len(workers):
    worker, verb, given = receive(weights)
    if verb == FINISH:
        finished += 1
        continue
    if verb == PULL:
        ages[worker] = 0
        answer(weights, worker, given)
        continue
    told.append((worker, ages[worker]))
    update(weights, optimizer, [given.mul_(scale(ages[worker]))])
    ages = {w: age + 1 for w, age in ages.items()}
return told"""),
        body("""\
header, gradient = torch.empty(2, dtype=torch.int64), torch.empty_like(weights)
versions, told, finished = torch.zeros(world_size, dtype=torch.int64), [], 0
while finished < len(workers):
    worker = dist.recv(header)
    if header[0] == PUSH:
        dist.recv(gradient, worker)
        told.append((worker, torch.tensor(len(told)) - versions[worker]))
        update(weights, optimizer, [gradient * scale(told[-1][1])])
    elif header[0] == PULL:
        versions[worker] = len(told)
        dist.isend(weights.detach(), worker).wait()
    finished += int(header[0] == FINISH)
return told"""),
    ),
    "step_on_server": (
        body("""\
if rank:
    new = torch.empty_like(x)
    dist.send(x, dst=0)
    dist.recv(new, src=0)
    return new
gradients = [torch.empty_like(x) for _ in range(1, world_size)]
for worker, gradient in enumerate(gradients, 1):
    dist.recv(gradient, src=worker)
weights = x - torch.stack(gradients).mean(0)
for worker in range(1, world_size):
    dist.send(weights, dst=worker)
return weights"""),
        body("""\
if rank > 0:
    new = torch.empty_like(x)
    for work in [dist.isend(x, 0), dist.irecv(new, 0)]:
        work.wait()
    return new
weights = torch.nn.Parameter(x.clone())
gradients = torch.empty(world_size - 1, len(x), dtype=x.dtype)
for work in [dist.irecv(g, w) for w, g in enumerate(gradients, 1)]:
    work.wait()
weights.grad = gradients.mean(0)
torch.optim.SGD([weights], lr=1.0).step()
for work in [dist.isend(weights.detach(), w) for w in range(1, world_size)]:
    work.wait()
return weights.detach()"""),
        edit("        weights -= gradient / (world_size - 1)\n", "        pushed.append(gradient.numpy().copy())\n",
             "    for _", "    pushed = []\n    for _", "    for worker", "    weights -= sum(pushed) / len(pushed)\n    for worker"),
    ),
}  # fmt: skip
