"""Answers to the exercises of lesson 22."""

ORDER = "order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))\n"
SHARES = "return [rows[rank::world_size] for rows in order[done:].split(batch)]"

ROUNDS = "rounds = ((gaps - restart).clamp(min=0) / (interval + save)).floor()\n"
HOURS = "hours = torch.stack([rounds.sum() * interval, gaps.sum()])\n"
SUM = "dist.all_reduce(hours)\n"
RATIO = "return (hours[0] / hours[1]).item()"

STEP = """\
import copy
for step, (x, y) in enumerate(batches, 1):
    optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    optimizer.step()
    if step % every == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
"""
PUT = '        queue.append({"step": step, **copy.deepcopy(state)})\n'

WRONG = {
    "my_rest_of_epoch": {
        "the epoch begins anew": (
            ORDER + SHARES.replace("[done:]", ""),
            "the epoch begins anew: its first ",
        ),
        "an order of each rank's own": (
            ORDER.replace("(epoch)", "(1000 * epoch + rank)") + SHARES,
            "that are left ",
        ),
        "an order of what is left": (
            ORDER.replace("count,", "count - done,") + SHARES.replace("[done:]", ""),
            "that are left ",
        ),
        "done counted in batches": (
            ORDER + SHARES.replace("[done:]", "[done * batch:]"),
            "that are left ",
        ),
        "done counted for each rank": (
            ORDER + "return [rows for rows in order[rank::world_size][done:].split(batch // world_size)]",
            "that are left ",
        ),
        "whole batches for all": (
            ORDER + "return list(order[done:].split(batch))",
            "every rank takes all that is left: give each its share of every batch",
        ),
        "whole batches in turn": (
            ORDER + "return list(order[done:].split(batch))[rank::world_size]",
            "batches",
        ),
        "batches of each rank": (
            ORDER + "return list(order[done:][rank::world_size].split(batch))",
            "`batch` counts the samples of all ranks together",
        ),
        "cut into ranks first": (
            ORDER + "mine = order[done:].tensor_split(world_size)[rank]\n"
            "return list(mine.tensor_split(-(-(count - done) // batch)))",
            "other samples than one process would take: keep the epoch's order",
        ),
        "the last batch dropped": (
            ORDER + SHARES + "[:-1]",
            "that are left ",
        ),
        "only rank 0 right": (
            ORDER + SHARES + "[rank:]",
            "that are left ",
        ),
        "unlike shares": (
            ORDER + "shares = []\nfor rows in order[done:].split(batch):\n"
            "    first = len(rows) - world_size + 1\n"
            "    shares.append(rows[:first] if rank == 0 else rows[first + rank - 1][None])\nreturn shares",
            "of one size, or one sample apart",
        ),
        "over budget": (
            ORDER + "dist.broadcast(order, src=0)\n" + SHARES,
            "over budget: collective calls on each rank 1, limit 0\nAll can know the order",
        ),
        "nothing comes back": (ORDER, "returns no list of tensors of row numbers"),
    },
    "my_useful_share": {
        "own year": (ROUNDS + HOURS + RATIO, "These are each rank's own years"),
        "mean of shares": (
            ROUNDS
            + "share = rounds.sum() * interval / gaps.sum()\ndist.all_reduce(share)\n"
            + "return share / world_size",
            "The mean of the ranks' shares counts a short year like a long one",
        ),
        "sum of shares": (
            ROUNDS + "share = rounds.sum() * interval / gaps.sum()\ndist.all_reduce(share)\nreturn share",
            "This is the sum of the ranks' shares",
        ),
        "work that is lost counted": (
            ROUNDS.replace(".floor()", "") + HOURS + SUM + RATIO,
            "Work without a complete save behind it is lost",
        ),
        "no restart": (
            ROUNDS.replace("(gaps - restart)", "gaps") + HOURS + SUM + RATIO,
            "After each failure `restart` hours go by",
        ),
        "less than no work": (
            ROUNDS.replace(".clamp(min=0)", "") + HOURS + SUM + RATIO,
            "A gap shorter than `restart` has no work",
        ),
        "saves take no time": (
            ROUNDS.replace(" + save", "") + HOURS + SUM + RATIO,
            "A round is `interval + save` hours long",
        ),
        "saves are work": (
            ROUNDS + HOURS.replace("* interval", "* (interval + save)") + SUM + RATIO,
            "The hours of saves are no work",
        ),
        "what is lost": (
            ROUNDS + HOURS + SUM + "return 1 - (hours[0] / hours[1]).item()",
            "This is the share that is lost",
        ),
        "hours": (
            ROUNDS + HOURS + SUM + "return hours[0].item()",
            "These are hours. Divide them",
        ),
        "over budget": (
            ROUNDS
            + "work, year = rounds.sum() * interval, gaps.sum()\ndist.all_reduce(work)\n"
            + "dist.all_reduce(year)\nreturn work / year",
            "over budget: collective calls on each rank 2, limit 1\nBoth sums fit into one tensor",
        ),
        "only rank 0 right": (
            ROUNDS + HOURS + "dist.reduce(hours, dst=0)\n" + RATIO,
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            ROUNDS + HOURS + "if rank:\n    dist.all_reduce(hours)\n" + RATIO,
            "deadlock: rank 0 finished the cell, and others wait for it",
        ),
    },
    "train_and_save": {
        "a shallow copy": (
            STEP + '        queue.append({"step": step, **copy.copy(state)})\n',
            "What is written are the weights and the momentum of the last step",
        ),
        "only the weights copied": (
            STEP + '        state["model"] = copy.deepcopy(state["model"])\n'
            '        queue.append({"step": step, **state})\n',
            "What is written are the momenta of the last step",
        ),
        "only the optimiser's state copied": (
            STEP + '        state["optimizer"] = copy.deepcopy(state["optimizer"])\n'
            '        queue.append({"step": step, **state})\n',
            "What is written are the weights of the last step",
        ),
        "copied before the step": (
            STEP.replace("    optimizer.step()\n", "") + PUT + "    optimizer.step()\n",
            "This is the state before the step whose number it has",
        ),
        "without momentum": (
            STEP + '        queue.append({"step": step, "model": copy.deepcopy(state["model"])})\n',
            'has not "model", "optimizer" and "step", as state_dict() gives them',
        ),
        "only once": (
            STEP.replace("step % every == 0", "step == len(batches) // every * every") + PUT,
            "Only the last state is there",
        ),
        "never": (STEP, "nothing was put into `queue`"),
        "only rank 0 right": (
            STEP + "        if rank == 0:\n    " + PUT,
            "rank 1: nothing was put into `queue`",
        ),
        "over budget": (
            STEP + "        dist.barrier()\n" + PUT,
            "over budget: collective calls on each rank ",
        ),
        "deadlock": (
            STEP + "        if rank == 0:\n            dist.barrier()\n" + PUT,
            "barrier",
        ),
    },
}

RIGHT = {
    "my_rest_of_epoch": {
        "in blocks": ORDER
        + "return [rows.tensor_split(world_size)[rank] for rows in order[done:].split(batch)]",
        "from the whole epoch": ORDER
        + """\
found = []
for first in range(done, count, batch):
    rows = order[first : first + batch]
    found.append([int(row) for place, row in enumerate(rows) if place % world_size == rank])
return found""",
    },
    "my_useful_share": {
        "gap by gap": """\
hours = torch.zeros(2, dtype=torch.float64)
for gap in gaps.tolist():
    hours[1] += gap
    gap -= restart
    while gap >= interval + save:
        hours[0] += interval
        gap -= interval + save
dist.all_reduce(hours)
return hours[0] / hours[1]""",
        "gathered": """\
rounds = torch.div(torch.relu(gaps - restart), interval + save, rounding_mode="floor")
every = [torch.zeros(2, dtype=torch.float64) for _ in range(world_size)]
dist.all_gather(every, torch.stack([rounds.sum() * interval, gaps.sum()]))
work, year = sum(every)
return work / year""",
    },
    "train_and_save": {
        "tensor by tensor": STEP
        + """\
        moments = {n: {k: v.clone() for k, v in s.items()} for n, s in state["optimizer"]["state"].items()}
        weights = {name: weight.clone() for name, weight in state["model"].items()}
        queue.append({"step": step, "model": weights, "optimizer": {"state": moments}})
""",
        "through memory": STEP
        + """\
        import io
        file = io.BytesIO()
        torch.save({"step": step, **state}, file)
        file.seek(0)
        queue.append(torch.load(file))
""",
    },
}
