"""Answers to the exercises of lesson 10."""

WORK = "if rank > 0:\n    return work(lambda w: w - rank, len(weights))\n"
BEGIN = WORK + (
    "message = torch.empty(len(weights) + 1)\n"
    "send_weights(range(1, world_size), weights, 0)\n"
    "for version, worker in enumerate(order):\n"
    "    dist.recv(message, worker)\n"
    "    staleness = version - int(message[-1])\n"
)
STEP = "    weights -= rate / (staleness + 1) * message[:-1]\n"
ANSWER = (
    "    more = worker in order[version + 1 :]\n"
    "    send_weights([worker], weights, version + 1 if more else -1)\n"
    "return weights"
)
HALF = "mine, message = mine.clone(), torch.empty_like(mine)\nmine[-1] /= 2\n"
SEND = "sending = dist.isend(mine.clone(), to[rank])\n"
TAKE = "for _ in range(to.count(rank)):\n    dist.recv(message)\n    mix(mine, message)\n"
END = "sending.wait()\nreturn mine"

RIGHT = {
    "serve_divided": {
        "the server remembers who has what": WORK
        + """\
has, left = dict.fromkeys(order, 0), list(order)
for worker in has:
    dist.send(torch.cat([weights, torch.zeros(1)]), worker)
while left:
    worker = left.pop(0)
    message = torch.empty(weights.numel() + 1)
    dist.recv(message, src=worker)
    now = len(order) - len(left)
    weights = weights - message[:-1] * rate / (now - has[worker])
    has[worker] = now
    dist.send(torch.cat([weights, torch.tensor([float(now if worker in left else -1)])]), worker)
return weights""",
        "posted ahead": WORK
        + """\
inbox = {w: torch.empty(len(weights) + 1) for w in order}
send_weights(sorted(inbox), weights, 0)
arriving = {w: dist.irecv(inbox[w], w) for w in inbox}
for version, w in enumerate(order):
    arriving[w].wait()
    *gradient, pulled = inbox[w].tolist()
    weights.sub_(torch.tensor(gradient), alpha=rate / (version - pulled + 1))
    again = order[version + 1 :].count(w) > 0
    if again:
        arriving[w] = dist.irecv(inbox[w], w)
    send_weights([w], weights, version + 1 if again else -1)
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
    "serve_divided": {
        "not divided": (
            BEGIN + "    weights -= rate * message[:-1]\n" + ANSWER,
            "Every step has its full length. Divide it by staleness + 1.",
        ),
        "by the staleness itself": (
            BEGIN + "    weights -= rate / max(1, staleness) * message[:-1]\n" + ANSWER,
            "A fresh gradient has staleness 0, and one that is one update old has 1",
        ),
        "the version before": (
            BEGIN + STEP + ANSWER.replace("version + 1 if", "version if"),
            "The staleness is one too high",
        ),
        "by the index": (
            BEGIN + "    weights -= rate / (version + 1) * message[:-1]\n" + ANSWER,
            "Each step is divided by the number of updates so far.",
        ),
        "nobody is dismissed: deadlock": (
            BEGIN + STEP + "    if worker in order[version + 1 :]:\n"
            "        send_weights([worker], weights, version + 1)\nreturn weights",
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in recv",
        ),
        "deadlock": (
            BEGIN.replace("send_weights(range(1, world_size), weights, 0)\n", "") + STEP + ANSWER,
            "deadlock: ",
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
