"""Answers to the exercises of lesson 10."""

WORK = "if rank > 0:\n    return work(lambda w: w - rank, len(weights))\n"
BEGIN = WORK + (
    "has = dict.fromkeys(order, 0)\n"
    "send_weights(range(1, world_size), weights)\n"
    "for version, worker in enumerate(order):\n"
    "    _, _, gradient = receive(weights, worker)\n"
    "    staleness = version - has[worker]\n"
)
STEP = "    weights -= rate / (staleness + 1) * gradient\n"
ANSWER = (
    "    has[worker] = version + 1\n"
    "    if worker in order[version + 1 :]:\n"
    "        send_weights([worker], weights)\n"
    "    else:\n"
    "        finish([worker])\n"
    "return weights"
)
HALF = "mine, message = mine.clone(), torch.empty_like(mine)\nmine[-1] /= 2\n"
SEND = "sending = dist.isend(mine.clone(), to[rank])\n"
TAKE = "for _ in range(to.count(rank)):\n    dist.recv(message)\n    mix(mine, message)\n"
END = "sending.wait()\nreturn mine"

SERVE = """\
workers, history = range(1, dist.get_world_size()), []
send_weights(workers, weights)
has = dict.fromkeys(workers, 0)
for version in range(updates):
    worker, verb, gradient = receive(weights)
    staleness = version - has[worker]
    step(weights, gradient, staleness)
    history.append((worker, staleness))
    if version < updates - len(workers):
        send_weights([worker], weights)
        has[worker] = version + 1
    else:
        finish([worker])
return history"""

RIGHT = {
    "my_serve": {
        "message by message": """\
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
return history""",
        "from the history": """\
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
return history""",
    },
    "serve_divided": {
        "message by message": WORK
        + """\
has, left = dict.fromkeys(order, 0), list(order)
send_weights(has, weights)
while left:
    worker = left.pop(0)
    header, gradient = torch.empty(2, dtype=torch.int64), torch.empty(weights.numel())
    dist.recv(header, src=worker)
    dist.recv(gradient, src=worker)
    now = len(order) - len(left)
    weights = weights - gradient * rate / (now - has[worker])
    has[worker] = now
    send_weights([worker], weights) if worker in left else finish([worker])
return weights""",
        "posted ahead": WORK
        + """\
heads = {w: torch.empty(2, dtype=torch.int64) for w in order}
inbox = {w: torch.empty(len(weights)) for w in order}
has = dict.fromkeys(inbox, 0)
def post(w):
    arriving[w] = dist.irecv(heads[w], w), dist.irecv(inbox[w], w)
arriving = {}
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
return weights""",
    },
    "gossip_round": {
        "all receives first": """\
came = [torch.empty_like(mine) for other in to if other == rank]
arriving = [dist.irecv(message) for message in came]
half = mine.clone()
half[-1] = mine[-1] / 2
dist.send(half, to[rank])
mine = half.clone()
for work, message in zip(arriving, came):
    work.wait()
    mix(mine, message)
return mine""",
        "by sums, from whom it is known": """\
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
return total""",
    },
}

WRONG = {
    "my_serve": {
        "the version before": (
            SERVE.replace("= version + 1", "= version"),
            "The staleness is one too high: the weights that you answer with are those after",
        ),
        "the other sign": (
            SERVE.replace("version - has[worker]", "has[worker] - version"),
            "The sign is wrong",
        ),
        "the version itself": (
            SERVE.replace("version - has[worker]", "version"),
            "That is the version now. Subtract that of the weights that its worker had",
        ),
        "the wrong way round": (
            SERVE.replace("(worker, staleness)", "(staleness, worker)"),
            "A pair is (worker, staleness), in this order.",
        ),
        "no step": (SERVE.replace("    step(weights, gradient, staleness)\n", ""), "Call step(weights"),
        "always fresh": (
            SERVE.replace("step(weights, gradient, staleness)", "step(weights, gradient, 0)"),
            "Call step(weights, gradient, staleness) once for each gradient",
        ),
        "answered before the step": (
            SERVE.replace("    step(weights, gradient, staleness)\n", "").replace(
                "return history", "    step(weights, gradient, staleness)\nreturn history"
            ),
            "and answer with the weights after it.",
        ),
        "nothing returned": (SERVE.replace("return history", ""), "Return a list: for each update"),
        "nobody dismissed: deadlock": (
            SERVE.replace("finish([worker])", "pass"),
            "deadlock: ",
        ),
        "dismissed too late": (
            SERVE.replace("updates - len(workers)", "updates - 1"),
            "has computed a gradient that nobody takes: the server sent it weights",
        ),
        "all answered, and dismissed at the end": (
            SERVE.replace("if version < updates - len(workers):", "if True:").replace(
                "    else:\n        finish([worker])\n", "finish(workers)\n"
            ),
            "has computed a gradient that nobody takes: the server sent it weights",
        ),
        "all answered, and nobody dismissed": (
            SERVE.replace("if version < updates - len(workers):", "if True:"),
            "has computed a gradient that nobody takes: the server sent it weights",
        ),
        "deadlock": (SERVE.replace("range(updates)", "range(updates + 1)"), "deadlock: "),
        "over budget": (
            "send_weights(range(1, world_size), weights)\n"
            "for _ in range(1, world_size):\n    receive(weights)\n" + SERVE,
            "over budget: messages in all",
        ),
    },
    "serve_divided": {
        "not divided": (
            BEGIN + "    weights -= rate * gradient\n" + ANSWER,
            "Every step has its full length. Divide it by staleness + 1.",
        ),
        "by the staleness itself": (
            BEGIN + "    weights -= rate / max(1, staleness) * gradient\n" + ANSWER,
            "A fresh gradient has staleness 0, and one that is one update old has 1",
        ),
        "the version before": (
            BEGIN + STEP + ANSWER.replace("= version + 1", "= version"),
            "The staleness is one too high",
        ),
        "by the index": (
            BEGIN + "    weights -= rate / (version + 1) * gradient\n" + ANSWER,
            "Each step is divided by the number of updates so far.",
        ),
        "nobody is dismissed: deadlock": (
            BEGIN + STEP + ANSWER.replace("    else:\n        finish([worker])\n", ""),
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in recv",
        ),
        "deadlock": (
            BEGIN.replace("send_weights(range(1, world_size), weights)\n", "") + STEP + ANSWER,
            "deadlock: ",
        ),
        "without a message": (
            "if rank > 0:\n    return order.count(rank)\n"
            "has = dict.fromkeys(order, (0, weights.clone()))\n"
            "for version, worker in enumerate(order):\n    then, theirs = has[worker]\n"
            "    weights -= rate / (version - then + 1) * (theirs - worker)\n"
            "    has[worker] = version + 1, weights.clone()\nreturn weights",
            "not by the way that was asked for: messages in all 0, needed are",
        ),
        "over budget": (
            "dist.barrier()\n" + BEGIN + STEP + ANSWER,
            "over budget: collective calls on each rank 1, limit 0\nServer and workers",
        ),
    },
    "gossip_round": {
        "kept all": (
            HALF + SEND + "mine[-1] *= 2\n" + TAKE + END,
            "The share that was given away was kept, too",
        ),
        "nobody halved": (HALF.replace("mine[-1] /= 2\n", "") + SEND + TAKE + END, "Nobody halved"),
        "plain mean": (
            HALF + SEND + "came = [mine.clone()]\nfor _ in range(to.count(rank)):\n"
            "    dist.recv(message)\n    came.append(message.clone())\n"
            "mine = sum(came) / len(came)\nmine[-1] = sum(m[-1] for m in came)\n" + END,
            "Weights count by their share: this is their plain mean.",
        ),
        "not mixed in": (
            HALF + SEND + TAKE.replace("    mix(mine, message)\n", "") + END,
            "The rank's own share was halved, but nothing that came was mixed in.",
        ),
        "a race": (
            HALF + "sending = dist.isend(mine, dst=to[rank])\n" + TAKE + END,
            "changes a tensor that isend is still sending, so what arrives depends on chance",
        ),
        "not waited for": (
            HALF + SEND + TAKE + "return mine",
            "never waits for its isend: call wait() on what it returned",
        ),
        "the argument lost": (
            HALF.replace("mine.clone()", "mine") + SEND + TAKE + END,
            "rank 0 changed `mine`, which its caller goes on using",
        ),
        "nothing sent": ("return mine", "This is what the rank had before."),
        "deadlock": (
            HALF + "dist.recv(message)\n" + SEND + END,
            "deadlock: ",
        ),
        "over budget": (
            HALF + "told = [torch.empty_like(mine) for _ in to]\ndist.all_gather(told, mine)\n"
            "for source in range(len(to)):\n    if to[source] == rank:\n        mix(mine, told[source])\n"
            "return mine",
            "over budget: collective calls on each rank 1, limit 0\nGossip is messages between two.",
        ),
    },
}  # fmt: skip
