"""Right answers to the exercises of lesson 10 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_serve": (
        body("""\
W = world_size - 1
has, history, header = {}, [], torch.empty(2, dtype=torch.int64)
def tell(w, verb):
    dist.send(torch.tensor([verb, -1]), w)
    if verb == 1:
        dist.send(weights, w)
for w in range(1, world_size):
    tell(w, 1)
while len(history) < updates:
    gradient = torch.empty_like(weights)
    w = dist.recv(header)
    dist.recv(gradient, w)
    history.append((w, len(history) - has.get(w, 0)))
    step(weights, gradient, history[-1][1])
    has[w] = len(history)
    tell(w, 1 if len(history) <= updates - W else 2)
return history"""),
        body("""\
history, left = [], updates
send_weights(range(1, world_size), weights)
while left:
    worker, _, gradient = receive(weights)
    mine = [n for n, (w, _) in enumerate(history) if w == worker]
    staleness = len(history) - (mine[-1] + 1 if mine else 0)
    step(weights, gradient, staleness)
    history += [(worker, staleness)]
    left -= 1
    finish([worker]) if left < world_size - 1 else send_weights([worker], weights)
return history"""),
        body("""\
import time
heads = {w: torch.empty(2, dtype=torch.int64) for w in range(1, world_size)}
send_weights(heads, weights)
arriving = {w: dist.irecv(head, w) for w, head in heads.items()}
has, history = dict.fromkeys(heads, 0), []
while arriving:
    time.sleep(0.0005)
    for w in [w for w, work in arriving.items() if work.is_completed()]:
        gradient = torch.empty_like(weights)
        dist.recv(gradient, w)
        history.append([w, len(history) - has[w]])
        step(weights, gradient, history[-1][1])
        if len(history) > updates - len(heads):
            finish([w])
            del arriving[w]
        else:
            has[w], arriving[w] = len(history), dist.irecv(heads[w], w)
            send_weights([w], weights)
return history"""),
    ),
    "serve_divided": (
        body("""\
if rank > 0:
    return work(slope, len(weights))
has, left = dict.fromkeys(order, 0), list(order)
send_weights(has, weights)
while left:
    worker = left.pop(0)
    header, gradient = torch.empty(2, dtype=torch.int64), torch.empty(weights.numel())
    dist.recv(header, src=worker)
    dist.recv(gradient, src=worker)
    now = len(order) - len(left)
    weights.copy_(weights - gradient * rate / (now - has[worker]))
    has[worker] = now
    send_weights([worker], weights) if worker in left else finish([worker])
return weights"""),
        body("""\
if rank > 0:
    return work(slope, len(weights))
heads = {w: torch.empty(2, dtype=torch.int64) for w in order}
inbox = {w: torch.empty(len(weights)) for w in order}
has, arriving = dict.fromkeys(inbox, 0), {}
def post(w):
    arriving[w] = dist.irecv(heads[w], w), dist.irecv(inbox[w], w)
send_weights(sorted(inbox), weights)
for w in inbox:
    post(w)
for version, w in enumerate(order):
    for one in arriving.pop(w):
        one.wait()
    weights.sub_(inbox[w], alpha=rate / (version - has[w] + 1))
    if order[version + 1 :].count(w) > 0:
        post(w)
        send_weights([w], weights)
        has[w] = version + 1
    else:
        finish([w])
return weights"""),
        edit("rate / (version - has[worker] + 1) * gradient",
             "torch.from_numpy(rate / (1 + version - has[worker]) * gradient.double().numpy())"),
    ),
    "gossip_round": (
        body("""\
came = [torch.empty_like(mine) for other in to if other == rank]
arriving = [dist.irecv(message) for message in came]
half = mine.clone()
half[-1] = mine[-1] / 2
dist.send(half, to[rank])
mine = half.clone()
for work, message in zip(arriving, came):
    work.wait()
    mix(mine, message)
return mine"""),
        body("""\
share = mine[-1] / 2
total = torch.cat([share * mine[:-1], share.reshape(1)])
sending = dist.isend(total.clone(), to[rank])
for source, other in enumerate(to):
    if other == rank:
        message = torch.empty_like(mine)
        dist.recv(message, source)
        total += message
sending.wait()
total[:-1] /= total[-1]
return total"""),
        body("""\
half = torch.cat([mine[:-1], mine[-1:] / 2])
came = {r: torch.empty_like(mine) for r, other in enumerate(to) if other == rank}
both = [dist.P2POp(dist.isend, half.clone(), to[rank])]
both += [dist.P2POp(dist.irecv, message, r) for r, message in came.items()]
for work in dist.batch_isend_irecv(both):
    work.wait()
for message in came.values():
    mix(half, message)
return half"""),
    ),
}  # fmt: skip
