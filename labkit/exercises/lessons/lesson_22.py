"""Lesson 22, Survive a lost rank: its predictions, exercises and questions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import linear, normal


def _epoch(generator: torch.Generator, size: int) -> Arguments:
    """An epoch that other ranks began. Neither a batch nor the last one need be a multiple of the ranks."""
    batch = size * int(torch.randint(3, 6, (), generator=generator))
    batch += int(torch.randint(size, (), generator=generator))
    batches, first, epoch = (int(torch.randint(3, 6, (), generator=generator)) for _ in range(3))
    more, last = torch.randint(1, batch, (2,), generator=generator).tolist()
    done = batch * first + more
    return [(done + batch * batches + last, epoch, done, batch)] * size


def _rows_by_batch(arguments: tuple, result: Any) -> Any:
    """Row numbers by batch, or a sentence."""
    try:
        if isinstance(result, (list, tuple)) and not any(
            torch.is_tensor(share) and share.is_floating_point() for share in result
        ):
            return [[int(row) for row in share] for share in result]
    except (TypeError, ValueError):
        pass
    return "no list of tensors of row numbers"


def _judge(answers: Answers) -> str:
    """Any way to share a batch will do, so there is no one answer to compare with."""
    (count, epoch, done, batch), found = answers.arguments[0], answers.found
    for rank, shares in enumerate(found):
        if isinstance(shares, str):
            return f"rank {rank} returns {shares}"
    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch)).tolist()
    left = [order[start : start + batch] for start in range(done, count, batch)]
    said = _of_rows([sum(shares, []) for shares in found], order, done) or _of_batches(found, left)
    if said:
        return said
    for number, rows in enumerate(left):
        if sorted(sum((shares[number] for shares in found), [])) != sorted(rows):
            return f"batch {number} has other samples than one process would take: keep the epoch's order"
        sizes = [len(shares[number]) for shares in found]
        if max(sizes) - min(sizes) > 1:
            return f"the shares of batch {number} are {sizes}: of one size, or one sample apart"
    return ""


def _of_rows(taken: list[list[int]], order: list[int], done: int) -> str:
    """What is wrong with the samples that all ranks take together, in a sentence, or ""."""
    seen, used = Counter(row for rows in taken for row in rows), set(order[:done])
    if set(seen) - set(order):
        return f"there is no sample {max(seen)}: rows are numbered from 0 to {len(order) - 1}"
    if all(sorted(rows) == sorted(order) for rows in taken):
        return "every rank takes the whole epoch: leave out what is done, and give each its share"
    if len(seen) == len(order) and max(seen.values()) == 1:
        return f"the epoch begins anew: its first {done} samples would be seen a second time"
    if all(sorted(rows) == sorted(order[done:]) for rows in taken):
        return "every rank takes all that is left: give each its share of every batch"
    lost = len(order) - done - len(set(seen) - used)
    again = len(used & set(seen)) + sum(seen[row] > 1 for row in set(seen) - used)
    if lost or again:
        return (
            f"of {len(order) - done} samples that are left {lost} are seen by no rank, "
            f"and {again} of the epoch are seen more than once"
        )
    return ""


def _of_batches(found: list[list[list[int]]], left: list[list[int]]) -> str:
    """What is wrong with the number of batches, in a sentence, or ""."""
    counts = [len(shares) for shares in found]
    if len(set(counts)) > 1:
        return f"the ranks have {counts} batches: every rank takes part in every one, or the others wait"
    if counts[0] != len(left):
        return f"{counts[0]} batches are left instead of {len(left)}: `batch` counts the samples of all ranks together"
    return ""


FROM_ITS_NUMBER = "All can know the order from the epoch's number."
SHARES = "[rows[rank::world_size] for rows in rest.split(batch)]"
REST_OF_EPOCH = Exercise(
    task="The order of an epoch is `torch.randperm(count, generator=...)`, with a generator whose seed is "
    "`epoch`. Its first `done` samples are in the weights already, whoever took them. Return this rank's "
    "part of the rest: a list of tensors of row numbers, one for each batch. `batch` samples of the order "
    "are a batch of all ranks together (the last may have fewer); the ranks' shares of it are of one size, "
    "or one sample apart. No communication.",
    stub="""\
def my_rest_of_epoch(count, epoch, done, batch):
    ...  # your code
""",
    solution=f"""\
def my_rest_of_epoch(count, epoch, done, batch):
    generator = torch.Generator().manual_seed(epoch)
    rest = torch.randperm(count, generator=generator)[done:]
    return {SHARES}
""",
    why="The order comes from the epoch's number alone, not from the ranks. So what is left follows from one "
    "number, `done`, in a world of any size, and each batch has the samples that it would have had.",
    hints=(
        "First the rest of the order, then batches of all ranks, then this rank's share of each.",
        "rest.split(batch) gives the batches, rows[rank::world_size] a share of one.",
    ),
    given=_epoch,
    answer=_rows_by_batch,
    judge=_judge,
    limits=(
        Limit("collectives", lambda arguments: 0, FROM_ITS_NUMBER),
        Limit("messages", lambda arguments: 0, FROM_ITS_NUMBER),
    ),
    wrong=(
        edit("[done:]", "", says="the epoch begins anew: its first "),
        edit("[done:]", "", "rows[rank::world_size]", "rows", says="every rank takes the whole epoch"),
        edit("(epoch)", "(1000 * epoch + rank)", says="that are left "),
        edit("(epoch)", "(0)", says="that are left "),
        edit("m(count,", "m(count - done,", "[done:]", "", says="that are left "),
        edit("[done:]", "[done:] + count", says="there is no sample "),
        edit("[done:]", "[done * batch:]", says="that are left "),
        edit("[done:]", "[rank::world_size][done:]", SHARES, "rest.split(batch // world_size)", says="that are left "),
        edit("rank::world_size", "rank::2", says="in a world of 3, of "),
        edit("rows[rank::world_size]", "rows",
             says="every rank takes all that is left: give each its share of every batch"),
        edit(SHARES, "list(rest.split(batch))[rank::world_size]", says="batches"),
        edit(SHARES, "list(rest[rank::world_size].split(batch))", says="batches"),
        edit("split(batch)", "split(batch * world_size)", says="`batch` counts the samples of all ranks together"),
        edit("split(batch)", "split(60)", says="batches are left instead of"),
        edit(SHARES, "rest.tensor_split(world_size)[rank].tensor_split(-(-(count - done) // batch))",
             says="other samples than one process would take: keep the epoch's order"),
        edit("split(batch)", "split(batch)[:-1]", says="that are left "),
        edit(SHARES, f"{SHARES}[rank:]", says="that are left "),
        edit(f"    return {SHARES}", "    shares = []\n    for rows in rest.split(batch):\n"
             "        k = len(rows) // (world_size + 1)\n"
             "        shares.append(rows[(rank - 1) * k : rank * k] if rank else rows[(world_size - 1) * k :])\n"
             "    return shares", says="of one size, or one sample apart"),
        edit("    return", "    dist.broadcast(rest, src=0)\n    return", says=FROM_ITS_NUMBER),
        edit("    return", "    rest =", says="returns no list of tensors of row numbers"),
        edit(SHARES, f"({SHARES[1:-1]})", says="returns no list of tensors of row numbers"),
        edit("rows[rank::world_size]", "rows[rank::world_size].float()",
             says="returns no list of tensors of row numbers"),
    ),
    becomes="rest_of_epoch",
)  # fmt: skip


def _years(generator: torch.Generator, size: int) -> Arguments:
    """Each rank's own failures, as many hours apart; one comes before the restart is over.

    In two gaps the last save is complete, or is not, by less than float32 can tell. Every mistake in counting
    rounds gives another number of them.
    """
    while True:
        interval, save, restart = (torch.rand(3, generator=generator, dtype=torch.float64) + 1).tolist()
        save, given, hours = save / 5, [], [0.0] * 4
        for rank in range(size):
            gaps = 30 * torch.rand(5 + 2 * rank, generator=generator, dtype=torch.float64) + 1
            whole = restart + int(torch.randint(5, 15, (), generator=generator)) * (interval + save)
            gaps = torch.cat([gaps, gaps.new_tensor([restart / 4, whole - 2e-7, whole + 2e-7])])
            given.append((gaps, interval, save, restart))
            ways = [(restart, 0.0, save), (0.0, 0.0, save), (restart, -100.0, save), (restart, 0.0, 0.0)]
            for n, (later, least, longer) in enumerate(ways):
                hours[n] += ((gaps - later).clamp(min=least) / (interval + longer)).floor().sum().item()
        if len(set(hours)) == len(hours):
            return given


SUM = "    dist.all_reduce(hours)\n"
ONE_SUM = "One all_reduce adds up over all ranks: no other messages."
RATIO = "    return (hours[0] / hours[1]).item()\n"
OF_SHARES = "    share = hours[0] / hours[1]\n    dist.all_reduce(share)\n    return share"
USEFUL_SHARE = Exercise(
    task="`gaps` has the hours between a failure and the next, in a year of this rank's own. After a failure "
    "`restart` hours go by. Then `interval` hours of work and a save of `save` hours take turns, until the "
    "next failure. Only work behind which a save is complete is kept; of a gap that ends before that, "
    "nothing. Return which share of all hours of all ranks' years is such work, with one collective call.",
    stub="""\
def my_useful_share(gaps, interval, save, restart):
    ...  # your code
""",
    solution=f"""\
def my_useful_share(gaps, interval, save, restart):
    rounds = ((gaps - restart).clamp(min=0) / (interval + save)).floor()
    hours = torch.stack([rounds.sum() * interval, gaps.sum()])
{SUM}{RATIO}""",
    why="A gap holds so many whole rounds of work and save. What is left over at its end is the work that is "
    "lost, in the mean half a round. Sums of hours may be added over ranks; shares may not, since years of "
    "different length would count alike.",
    hints=(
        "How many whole rounds of `interval + save` fit into a gap, after `restart`? Never below 0.",
        "Stack the saved hours and all hours into one tensor, all_reduce that, and divide.",
    ),
    given=_years,
    judge=like_solution(1e-6),
    limits=(
        Limit("collectives", lambda arguments: 1, "Both sums fit into one tensor."),
        Limit("messages", lambda arguments: 0, ONE_SUM),
    ),
    wrong=(
        edit(SUM, "", says="These are each rank's own years: add up those of all."),
        edit(SUM + RATIO, f"{OF_SHARES} / world_size",
             says="The mean of the ranks' shares counts a short year like a long one: add hours, then divide."),
        edit(SUM + RATIO, OF_SHARES, says="This is the sum of the ranks' shares: add hours, then divide."),
        edit(".floor()", "", says="Work without a complete save behind it is lost: count whole rounds only."),
        edit("(gaps - restart)", "gaps", says="After each failure `restart` hours go by before work begins."),
        edit(".clamp(min=0)", "", says="A gap shorter than `restart` has no work, not less than none."),
        edit(" + save", "",
             says="A round is `interval + save` hours long: while a save goes on, no work is done."),
        edit("* interval", "* (interval + save)",
             says="The hours of saves are no work: only `interval` of each round is."),
        edit("return (hours[0] / hours[1]).item()", "return 1 - (hours[0] / hours[1]).item()",
             says="This is the share that is lost."),
        edit(" / hours[1]", "", says="These are hours. Divide them by all hours of all ranks' years."),
        edit(SUM, "    year = hours[1].clone()\n    dist.all_reduce(hours)\n    dist.all_reduce(year)\n",
             says="Both sums fit into one tensor."),
        edit(SUM, "    own = hours.clone()\n    for step in range(1, world_size):\n"
             "        work, came = dist.isend(own, (rank + step) % world_size), torch.empty_like(own)\n"
             "        dist.recv(came, (rank - step) % world_size)\n        work.wait()\n        hours += came\n", says=ONE_SUM),
        edit("floor()", "round()", says="are wrong"),
        edit("floor()", "ceil()", says="are wrong"),
        edit("(gaps - restart)", "(gaps.float() - restart)", says="are wrong"),
        body("return 0.75", says="are wrong"),
        edit(SUM, "    hours *= world_size\n", says="These are each rank's own years: add up those of all."),
        edit(SUM, f"    if rank:\n    {SUM}", hangs=True,
             says="deadlock: rank 0 finished the cell, and others wait for it"),
    ),
    becomes="useful_share",
)  # fmt: skip


def _training(generator: torch.Generator, size: int) -> Arguments:
    """A network, the same on all ranks, and batches of each rank's own, one more than the second save needs.

    An old gradient is there. Three ranks train with Adam, which keeps more than a momentum.
    """
    every = int(torch.randint(2, 4, (), generator=generator))
    rate, momentum = (0.2 + 0.5 * torch.rand(2, generator=generator)).tolist()
    start, given = linear(generator, 5, 3, dtype=torch.float64), []
    for _ in range(size):
        model = torch.nn.utils.skip_init(torch.nn.Linear, 5, 3, dtype=torch.float64)
        model.load_state_dict(start.state_dict())
        for p in model.parameters():
            p.grad = normal(generator, *p.shape)
        x, y = normal(generator, 2 * every + 1, 4, 5), normal(generator, 2 * every + 1, 4, 3)
        sgd = torch.optim.SGD(model.parameters(), lr=rate / 2, momentum=momentum)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate / 9) if size == 3 else sgd
        given.append((model, optimizer, list(zip(x, y, strict=True)), every, []))
    return given


def _written(arguments: tuple, result: Any) -> Any:
    """What the disk gets in the end, state after state: step, weights, momentum; and the weights then, or words."""
    model, optimizer, queue = arguments[0], arguments[1], arguments[4]
    if not queue:
        return "nothing was put into `queue`"
    parts = [*model.parameters()]
    try:
        for state in queue:
            for name, of in (("model", model), ("optimizer", optimizer)):
                if state[name].keys() != of.state_dict().keys():
                    raise KeyError(name)
            moments = state["optimizer"]["state"]
            kept = [moments[place][name] for place in sorted(moments) for name in sorted(moments[place])]
            parts += [torch.tensor([float(state["step"])]), *state["model"].values()]
            parts += [part for part in kept if torch.is_tensor(part)]
        return torch.cat([part.detach().double().flatten() for part in parts])
    except (KeyError, TypeError, AttributeError, IndexError):
        return 'what is in `queue` has not "model", "optimizer" and "step", as state_dict() gives them'


TRAIN = """\
def train_and_save(model, optimizer, batches, every, queue):
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
            queue.append({"step": step, **copy.deepcopy(state)})  # as it is now
"""
STEP = "        optimizer.step()\n"
SAVE = TRAIN[TRAIN.index(STEP) + len(STEP) :]
PUT = SAVE[SAVE.index("            queue") :]
LATE = (
    "What is written are the {} of the last step, under the number of an earlier one: state_dict() gives the "
    "tensors themselves, which training changes before they are on the disk."
)
NOT_STATES = 'has not "model", "optimizer" and "step", as state_dict() gives them'
BOTH_LATE = LATE.format("weights and the momentum")
LATE_WRITE = Exercise(
    task="`queue` is a list: what a rank appends to it, a thread writes to the disk later, while training "
    "goes on. The program runs without an error, the loss falls, and every save has all three parts. Yet who "
    "goes on from one leaves the curve. **Find the bug and mend it**, with no more communication.",
    stub=edited(TRAIN, "    import copy\n\n", "", "**copy.deepcopy(state)})  # as it is now", "**state})"),
    solution=TRAIN,
    why="A state_dict holds the training's own tensors, and optimizer.step() changes them in place. Who "
    "writes later must copy first. That copy is all that training waits for in an asynchronous save.",
    hints=(
        "Call state_dict(), make one more step, and look at what you got before: has it changed?",
        "copy.deepcopy(state) makes tensors that training does not touch.",
    ),
    given=_training,
    answer=_written,
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: 2 * len(arguments[0][2]),
              "Every rank copies its own state: nobody else is needed for that."),
        Limit("messages", lambda arguments: 0, "Every rank copies its own state: nobody else is needed for that."),
    ),
    wrong=(
        edit("copy.deepcopy(state)", "copy.copy(state)", says=BOTH_LATE),
        edit("copy.deepcopy(state)", "state", "# as it is now\n", "\n    queue[:] = copy.deepcopy(queue)\n",
             says=BOTH_LATE),
        edit("copy.deepcopy(state)", "state", "model.state_dict(), ",
             "{name: part.detach() for name, part in model.state_dict().items()}, ", says=BOTH_LATE),
        edit("copy.deepcopy(state)", "state", "model.state_dict()", "copy.deepcopy(model.state_dict())",
             says=LATE.format("momenta")),
        edit("copy.deepcopy(state)", "state", "optimizer.state_dict()", "copy.deepcopy(optimizer.state_dict())",
             says=LATE.format("weights")),
        edit(STEP + SAVE, SAVE + STEP,
             says="This is the state before the step whose number it has: save after optimizer.step()."),
        edit("copy.deepcopy(state)", '{"model": copy.deepcopy(state["model"])}',
             says=NOT_STATES),
        edit("copy.deepcopy(state)", '{**copy.deepcopy(state), "model": [p.detach().clone() for p in model.parameters()]}',
             says=NOT_STATES),
        edit("copy.deepcopy(state)", '{**copy.deepcopy(state), "model": {n: p.detach().numpy().copy() for n, p in model.state_dict().items()}}',
             says=NOT_STATES),
        edit("copy.deepcopy(state)", '{**copy.deepcopy(state), "optimizer": {"state": copy.deepcopy(optimizer.state_dict()["state"])}}',
             says=NOT_STATES),
        edit("step % every == 0", "step == len(batches) // every * every",
             says="Only the last state is there: put one into `queue` after every `every` steps."),
        edit("step % every == 0", "step % 2 == 0 and step < 5", says="are wrong"),
        edit("batches, 1)", "batches)", says="are wrong"),
        edit(PUT, PUT.replace("queue.append(", "queue = [*queue, ").replace("})", "}]"),
             says="nothing was put into `queue`"),
        edit(PUT, f"            if rank == 0:\n    {PUT}", says="nothing was put into `queue`"),
        edit("optimizer.zero_grad()", "pass", says="are wrong"),
        edit("all_reduce(p.grad)", "all_reduce(p.grad.clone())", says="are wrong"),
        edit(PUT, f"{PUT}            if step + every > len(batches):\n                return\n",
             says="The saves are right, but the training is not: the steps after the last save are missing."),
        edit("copy.deepcopy(state)", "copy.deepcopy(state), \"model\": {name: part.float() for name, part in "
             "state[\"model\"].items()}", says="of the largest number"),
        edit(PUT, f"            dist.barrier()\n{PUT}", says="Every rank copies its own state"),
        edit(PUT, f"            if rank == 0:\n                dist.barrier()\n{PUT}", says="barrier", hangs=True),
    ),
    changes=("model", "optimizer", "queue"),
)  # fmt: skip

LESSON = Lesson(
    number="22",
    title="Survive a lost rank",
    predictions=(Prediction("save_every", "minutes"), Prediction("year_lost", "%")),
    exercises=(REST_OF_EPOCH, USEFUL_SHARE, LATE_WRITE),
    questions=questions("22"),
)
