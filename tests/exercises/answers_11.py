"""Answers to the exercises of lesson 11."""

DONE = "done = times.sort(dim=1).values[:, needed - 1]\n"
TOTAL = "total = torch.tensor([done.sum(), float(len(done))])\ndist.all_reduce(total)\n"
SEND = (
    "import time\nif rank > 0:\n    if rank == late:\n        time.sleep(seconds)\n"
    "    dist.send(mine, 0)\n    return mine\n"
)
TAKE = (
    "came = []\nfor _ in range(world_size - 1):\n"
    "    came.append(torch.empty_like(mine))\n    dist.recv(came[-1])\n"
)

FRESH = """\
workers = range(1, dist.get_world_size())
send_weights(workers, weights)
current = set(workers)
for version in range(updates):
    came = {}
    while len(came) < needed:
        worker, verb, gradient = receive(weights)
        if worker in current:
            came[worker] = gradient
        else:
            send_weights([worker], weights)
            current.add(worker)
    step(weights, sum(came.values()) / needed, 0)
    if version < updates - 1:
        send_weights(came, weights)
        current = set(came)
for _ in workers[needed:]:
    receive(weights)
finish(workers)"""

RIGHT = {
    "serve_fresh": {
        "versions by worker": FRESH.replace("set(workers)", "dict.fromkeys(workers, 0)")
        .replace("worker in current", "current[worker] == version")
        .replace("current.add(worker)", "current[worker] = version")
        .replace("current = set(came)", "current |= dict.fromkeys(came, version + 1)"),
        "who is late": FRESH.replace("set(workers)", "set()")
        .replace("worker in current", "worker not in current")
        .replace("current.add(worker)", "current.discard(worker)")
        .replace("current = set(came)", "current |= set(workers) - set(came)"),
    },
    "mean_step": {
        "kthvalue": """\
total = torch.zeros(2)
for step in times:
    total += torch.stack([step.kthvalue(needed).values, torch.ones(())])
dist.all_reduce(total)
return (total[0] / total[1]).item()""",
        "topk and all_gather": """\
done = torch.topk(times, needed, dim=1, largest=False).values.max(dim=1).values
mine = torch.stack([done.sum(), torch.tensor(len(done)).float()])
everyone = [torch.empty(2) for _ in range(world_size)]
dist.all_gather(everyone, mine)
sums = sum(everyone)
return sums[0] / sums[1]""",
    },
    "first_mean": {
        "a list of what came": SEND + TAKE + "return sum(came[:needed]) / needed",
        "posted ahead, from each": SEND
        + """\
boxes = {w: torch.empty_like(mine) for w in range(1, world_size)}
works = {w: dist.irecv(box, w) for w, box in boxes.items()}
first = []
while len(first) < needed:
    first += [w for w in works if w not in first and works[w].is_completed()][: needed - len(first)]
for work in works.values():
    work.wait()
return torch.stack([boxes[w] for w in first]).mean(dim=0)""",
    },
}

WRONG = {
    "serve_fresh": {
        "whatever comes": (
            FRESH.replace("if worker in current:", "if worker in workers:"),
            "A gradient of older weights is in it. Remember who has the weights of now",
        ),
        "once current, always current": (
            FRESH.replace("        current = set(came)\n", "        current |= set(came)\n"),
            "A gradient of older weights is in it.",
        ),
        "late ones unanswered: deadlock": (
            FRESH.replace("            send_weights([worker], weights)\n", ""),
            "deadlock: ",
        ),
        "by number of workers": (FRESH.replace("/ needed", "/ len(workers)"), "is wrong"),
        "nobody dismissed: deadlock": (FRESH.replace("finish(workers)", ""), "deadlock: "),
        "deadlock": (FRESH.replace("< needed", "< len(workers) + 1"), "deadlock: "),
        "over budget, a collective": ("dist.barrier()\n" + FRESH, "deadlock: "),
    },
    "mean_step": {
        "waits for all": (
            "done = times.max(dim=1).values\n" + TOTAL + "return total[0] / total[1]",
            "This waits for all workers: the maximum of each row.",
        ),
        "one too many": (
            DONE.replace("needed - 1", "needed") + TOTAL + "return total[0] / total[1]",
            "This waits for one worker more than it needs: columns count from 0.",
        ),
        "mean of means": (
            DONE + "mean = done.mean()\ndist.all_reduce(mean)\nreturn mean / world_size",
            "This is the mean of the ranks' means. Their logs differ in length",
        ),
        "own log": (DONE + "return done.mean()", "This is the mean of the rank's own log."),
        "not sorted": (
            "done = times.flatten()\n" + TOTAL + "return total[0] / total[1]",
            "This is the mean time of a worker, late or not.",
        ),
        "only rank 0 right": (
            DONE + "total = torch.tensor([done.sum(), float(len(done))])\ndist.reduce(total, 0)\n"
            "return total[0] / total[1] if rank == 0 else done.mean()",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            DONE + "total, count = done.sum(), torch.tensor(float(len(done)))\n"
            "dist.all_reduce(total)\ndist.all_reduce(count)\nreturn total / count",
            "over budget: collective calls on each rank 2, limit 1\nOne tensor of two numbers",
        ),
    },
    "first_mean": {
        "mean of all": (SEND + TAKE + "return sum(came) / len(came)", "It is the mean of all workers"),
        "the late one as well": (
            SEND + TAKE + "return sum(came[-needed:]) / needed",
            "came last, and is in it: receive from whoever comes.",
        ),
        "a sum": (SEND + TAKE + "return sum(came[:needed])", "It is a sum: divide it by `needed`."),
        "left behind": (
            SEND + TAKE.replace("world_size - 1", "needed") + "return sum(came) / needed",
            "rank 0 finished the cell",
        ),
        "nothing back from the workers": (
            SEND.replace("return mine", "return") + TAKE + "return sum(came[:needed]) / needed",
            "Nothing came back",
        ),
        "deadlock": (
            SEND + TAKE.replace("world_size - 1", "world_size") + "return sum(came[:needed]) / needed",
            "deadlock: ",
        ),
        "over budget": (
            "dist.barrier()\n" + SEND + TAKE + "return sum(came[:needed]) / needed",
            "over budget: collective calls on each rank 1, limit 0\nA collective waits for every rank",
        ),
    },
}  # fmt: skip
