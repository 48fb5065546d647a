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
current = set(range(1, dist.get_world_size()))
send_weights(current, weights)
for version in range(updates):
    came, idle = {}, set()
    while len(came) < needed:
        worker, verb, gradient = receive(weights)
        idle.add(worker)
        if worker in current:
            came[worker] = gradient
    step(weights, sum(came.values()) / needed, 0)
    send_weights(idle, weights)
    current = idle"""
AT_ONCE = """\
has = dict.fromkeys(range(1, dist.get_world_size()), 0)
send_weights(has, weights)
for version in range(updates):
    came = {}
    while len(came) < needed:
        worker, verb, gradient = receive(weights)
        if has[worker] == version:
            came[worker] = gradient
        send_weights([worker], weights)
        has[worker] = version
    step(weights, sum(came.values()) / needed, 0)"""

RIGHT = {
    "serve_fresh": {
        "versions by worker": FRESH.replace("set(range", "dict.fromkeys(range")
        .replace("_size()))", "_size()), 0)")
        .replace("worker in current", "current[worker] == version")
        .replace("current = idle", "current |= dict.fromkeys(idle, version + 1)"),
        "who is late": FRESH.replace("current = set(", "workers, late = set(")
        .replace("_size()))", "_size())), set()")
        .replace("send_weights(current", "send_weights(workers")
        .replace("worker in current", "worker not in late")
        .replace("current = idle", "late = workers - idle"),
        "the late answered at once": FRESH.replace("came, idle = {}, set()", "came = {}")
        .replace("        idle.add(worker)\n", "")
        .replace(
            "came[worker] = gradient",
            "came[worker] = gradient\n        else:\n            send_weights([worker], weights)\n"
            "            current.add(worker)",
        )
        .replace("idle", "came")
        .replace("current = came", "current = set(came)"),
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
            FRESH.replace("if worker in current:", "if worker:"),
            "A gradient of older weights is in it. At that moment, who has the newest weights?",
        ),
        "once current, always current": (
            FRESH.replace("current = idle", "current |= idle"),
            "A gradient of older weights is in it.",
        ),
        "sent before the step": (
            FRESH.replace("    send_weights(idle, weights)\n", "")
            .replace("    step(", "    send_weights(idle, weights)\n    step("),
            "A gradient of older weights is in it.",
        ),
        "late ones unanswered: deadlock": (
            FRESH.replace("        idle.add(worker)\n", "")
            .replace("came[worker] = gradient", "came[worker] = gradient\n            idle.add(worker)"),
            "deadlock: ",
        ),
        "by number of workers": (
            FRESH.replace("/ needed", "/ (dist.get_world_size() - 1)"),
            "All are of the current weights, and their sum is divided by the wrong number",
        ),
        "nobody answered: deadlock": (FRESH.replace("    send_weights(idle, weights)\n", ""), "deadlock: "),
        "deadlock": (FRESH.replace("< needed", "< len(current) + 1"), "deadlock: "),
        "a collective: deadlock": ("dist.barrier()\n" + FRESH, "deadlock: "),
        "over budget, sent back before the step": (
            AT_ONCE,
            "over budget: messages in all",
        ),
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
        "the slowest": (
            "done = torch.topk(times, needed, dim=1).values.min(dim=1).values\n"
            + TOTAL + "return total[0] / total[1]",
            "These are the slowest `needed`: the first to be done have the smallest times.",
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
        "one buffer for all": (
            SEND + "buffer, came = torch.empty_like(mine), []\nfor _ in range(world_size - 1):\n"
            "    dist.recv(buffer)\n    came.append(buffer)\nreturn sum(came[:needed]) / needed",
            "If you keep what came, each message needs a buffer of its own",
        ),
        "divided by workers": (
            SEND + TAKE + "return sum(came[:needed]) / len(came)",
            "the wrong number: divide by `needed`.",
        ),
        "divided by ranks": (
            SEND + TAKE + "return sum(came[:needed]) / world_size",
            "the wrong number: divide by `needed`.",
        ),
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
