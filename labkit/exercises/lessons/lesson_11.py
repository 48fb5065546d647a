"""Lesson 11, Live with stragglers: its prediction, exercises and questions."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
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
from labkit.exercises.judge import close, like_solution, show
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons import notices

UPDATES, QUICK, LATE = 24, 0.004, 4.0
"""Updates; seconds of a gradient; and how long the late worker and the server wait for each other at most."""
UNDER_WAY, AWAITED = UPDATES // 8, UPDATES // 4
"""After how many updates the late worker's first gradient may leave, and after how many it is waited for."""


class Step:
    """Adds 1 to the weights, so that they are the number of updates; keeps the gradients that it got.

    It sees to it that the late gradient comes in the middle, however fast server and workers are, and notes
    whether it was on its way before the first update.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.run, self.waited = seed, "", False
        self.seen: list[float] = []

    def __call__(self, weights: torch.Tensor, gradient: torch.Tensor, staleness: int) -> None:
        self.waited = self.waited or not self.seen and notices.heard(f"{self.run}/late", seconds=0)
        self.seen.append(gradient.mean().item())
        weights += 1
        if len(self.seen) == UNDER_WAY:
            notices.tell(f"{self.run}/under way")
        elif len(self.seen) == AWAITED:
            notices.heard(f"{self.run}/late", seconds=LATE)


def _one_is_late(generator: torch.Generator, size: int) -> Arguments:
    """All workers but one are waited for. Drawn: who is late, how many weights, and each worker's own number."""
    late = int(torch.randint(1, size, (), generator=generator))
    n = int(torch.randint(3, 9, (), generator=generator))
    own, seed = (0.1 + 0.2 * torch.rand(size, generator=generator)).tolist(), generator.initial_seed()
    return [(torch.zeros(n), UPDATES, size - 2, Step(seed), late, own) for _ in range(size)]


def _served(serve: Callable[..., Any], arguments: tuple) -> Any:
    """On rank 0 the learner's server, and the end; a worker's gradient is the weights and its own number."""
    from labkit.algorithms import finish, work
    from labkit.algorithms.parameter_server import receive

    weights, updates, needed, step, late, own = arguments
    step.run = notices.run_of("serve_fresh", step.seed)
    rank, workers = dist.get_rank(), range(1, dist.get_world_size())
    if rank == 0:
        serve(weights, updates, needed, step)
        for _ in workers:
            receive(weights)
        return finish(workers)
    is_late = rank == late

    def gradient(weights: torch.Tensor) -> torch.Tensor:
        nonlocal is_late
        if is_late:
            notices.heard(f"{step.run}/under way", seconds=LATE)
            notices.tell(f"{step.run}/late")
            is_late = False
        time.sleep(QUICK)
        return weights + own[rank]

    return work(gradient, len(weights))


def _judge_updates(answers: Answers) -> str:
    _, _, needed, _, _, own = answers.arguments[0]
    seen, waited = answers.found[0]
    if len(seen) != UPDATES:
        return f"rank 0 made {len(seen)} updates, and {UPDATES} were asked for"
    more = [sum(some) / needed for some in combinations(own[1:], needed)]

    def wrong(factor: float = 1.0) -> list[int]:
        found = [factor * x for x in seen]
        return [n for n, x in enumerate(found) if min(abs(x - n - m) for m in more) > 1e-4]

    if not wrong():
        return WAITED if waited else ""
    says = "A gradient of older weights is in it. At that moment, who has the newest weights?"
    if not wrong((answers.size - 1) / needed):
        says = "All are of the current weights, and their sum is divided by the wrong number: divide by `needed`."
    elif all(abs(x - n) < 0.5 for n, x in enumerate(seen)):
        says = "It is not the mean of `needed` gradients that workers have sent."
    return (
        f"update {wrong()[0]} is wrong: a gradient here is the number of updates before its weights were sent, "
        f"and a number of its worker's more; `step` was given {show(seen[wrong()[0]])}\n{says}"
    )


def _messages(arguments: Arguments) -> int:
    """Each worker gets each version of the weights once and answers it, two messages each; at the end one."""
    workers = len(arguments) - 1
    return workers * (UPDATES + 1) * 4 + workers


WAITED = (
    "the first update was made after the late worker's gradient\nThe first `needed` gradients are enough."
)
OLDER = "A gradient of older weights is in it. At that moment, who has the newest weights?"
FRESH = """\
def serve_fresh(weights, updates, needed, step):
    current = set(range(1, dist.get_world_size()))  # who has the newest weights
    send_weights(current, weights)
    for _ in range(updates):
        came, idle = {}, set()
        while len(came) < needed:
            worker, verb, gradient = receive(weights)
            idle.add(worker)
            if worker in current:
                came[worker] = gradient
        step(weights, sum(came.values()) / needed, 0)
        send_weights(idle, weights)
        current = idle
"""
SERVE_FRESH = Exercise(
    task="A server with backup workers, on rank 0. An update takes the mean of the first `needed` gradients, and "
    "waits for no more. One that comes too late is dropped, and its worker waits until the next update is made: "
    "no worker gets the same weights twice. (Whoever calls `serve_fresh` receives the last gradients, and says "
    "`finish`.) It runs without an error, and some of its gradients are stale. **Find the bug and mend it.**",
    stub=edited(FRESH, "        current = idle", "        current.update(idle)"),
    solution=FRESH,
    why="`current.update(idle)` adds workers and takes none out. All are in it from the start, so the test "
    "lets every gradient pass, the late ones, too. After an update the newest weights are with those who "
    "were just sent them, and with nobody else: `current = idle`.",
    hints=(
        "Follow a worker that is still computing when the first update is made: when does it leave "
        "`current`?",
        "After an update only those have the newest weights who were just sent them. (And whoever gets no "
        "weights sends nothing more: a worker whose gradient was dropped needs an answer as well, or the "
        "server waits for it for ever.)",
    ),
    given=_one_is_late,
    use=_served,
    answer=lambda arguments, result: [arguments[3].seen, arguments[3].waited],
    judge=_judge_updates,
    sizes=(3, 4),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers speak by messages alone."),
        Limit(
            "messages",
            _messages,
            "A worker needs each version of the weights once. If it gets them again before the update, it "
            "computes a gradient that nobody can use.",
        ),
    ),
    wrong=(
        edit("if worker in current:", "if worker:", says=OLDER),
        edit("current = idle", "current |= idle", says="A gradient of older weights is in it."),
        edit("        step(weights,", "        send_weights(idle, weights)\n        step(weights,",
             "        send_weights(idle, weights)\n", "", says="A gradient of older weights is in it."),
        edit("            idle.add(worker)\n", "", "[worker] = gradient", "[worker] = gradient\n                idle.add(worker)",
             says="deadlock: ", hangs=True),
        edit("/ needed", "/ (dist.get_world_size() - 1)",
             says="All are of the current weights, and their sum is divided by the wrong number: divide by `needed`."),
        edit("        send_weights(idle, weights)\n", "", says="deadlock: ", hangs=True),
        edit("< needed", "< len(current) + 1", says="deadlock: ", hangs=True),
        edit("    current = set", "    dist.barrier()\n    current = set", says="deadlock: ", hangs=True),
        body("""\
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
    step(weights, sum(came.values()) / needed, 0)""", says="over budget: messages in all"),
        edit("< needed", "< dist.get_world_size() - 1", "/ needed", "/ len(came)", says="It is not the mean of `needed` gradients"),
        edit("< needed", "< dist.get_world_size() - 1", "sum(came.values())", "sum(list(came.values())[:needed])", says=WAITED),
        edit("sum(came.values()) / needed", "weights.clone()",
             says="It is not the mean of `needed` gradients that workers have sent."),
        edit("sum(came.values()) / needed", "gradient", says="It is not the mean of `needed` gradients that workers have sent."),
        edit("range(updates)", "range(updates // 2)", says="updates, and 24 were asked for"),
        body("from labkit.algorithms import serve_first\nserve_first(weights, updates, needed, step)", says="deadlock: ",
             hangs=True),
    ),
    uses=("send_weights", "finish", "parameter_server.receive"),
    changes=("weights",),
)  # fmt: skip


def _logs(generator: torch.Generator, size: int) -> Arguments:
    """Each rank's log of how long workers computed, in another number of steps; and how many are needed.

    The mean of all times is not near that of the n-th to be done, whichever n.
    """
    workers = 6 + int(torch.randint(4, (), generator=generator))
    needed = workers - 2 - int(torch.randint(2, (), generator=generator)) * (workers > 6)
    while True:
        steps = [3 + 4 * rank + int(torch.randint(3, (), generator=generator)) for rank in range(size)]
        drawn = [torch.rand(many, workers, generator=generator) for many in steps]
        logs = [1 + log * (1 + rank) for rank, log in enumerate(drawn)]
        done = torch.cat(logs).sort(dim=1).values.mean(dim=0)
        if (done - done.mean()).abs().min() > 0.01:
            return [(log, needed) for log in logs]


RETURN = "return total[0] / total[1]"
MEAN_STEP = Exercise(
    task="Each rank has a log `times` [S, W]: how long each of W workers computed in each of S steps; S "
    "differs from rank to rank. Return, on every rank, the mean over all steps of all ranks of the time "
    "until `needed` workers were done. One collective, to which each rank passes two numbers.",
    stub="""\
def mean_step(times, needed):
    ...  # your code
""",
    solution="""\
def mean_step(times, needed):
    done = times.sort(dim=1).values[:, needed - 1]
    total = torch.stack([done.sum(), torch.tensor(float(len(done)))])
    dist.all_reduce(total)
    return total[0] / total[1]
""",
    why="The n-th smallest of each row is when n workers were done. Sum and count go round in one tensor: "
    "logs of unequal length must not count alike, as unequal shards in lesson 03.",
    hints=(
        "Sort each row: times.sort(dim=1).values. Which column is it?",
        "all_reduce a tensor of two numbers, the sum and how many steps it is of. Divide afterwards.",
    ),
    given=_logs,
    judge=like_solution(1e-5),
    limits=(
        Limit("collectives", lambda arguments: 1, "One tensor of two numbers needs one call."),
        Limit("messages", lambda arguments: 0, "One collective does all of it."),
        Limit("handed", lambda arguments: 16, "Two numbers are enough: a rank can sum up its own log."),
    ),
    wrong=(
        edit("times.sort(dim=1).values[:, needed - 1]", "times.max(dim=1).values",
             says="This waits for all workers: the maximum of each row."),
        edit("needed - 1", "needed", says="This waits for one worker more than it needs: columns count from 0."),
        edit("needed - 1", "-needed", says="These are the slowest `needed`: the first to be done have the smallest times."),
        edit("total = torch.stack([done.sum(), torch.tensor(float(len(done)))])", "total = torch.tensor([done.mean(), 1.0])",
             says="This is the mean of the ranks' means. Their logs differ in length: weight by it."),
        edit(RETURN, "return done.mean()", says="This is the mean of the rank's own log."),
        edit("times.sort(dim=1).values[:, needed - 1]", "times.flatten()",
             says="This is the mean time of a worker, late or not. Sort each row, and take one column."),
        edit("all_reduce(total)", "reduce(total, 0)", RETURN, f"{RETURN} if rank == 0 else done.mean()",
             says="Only rank 0 has the sums of all: a reduce leaves them there."),
        edit("total = torch.stack([done.sum(), torch.tensor(float(len(done)))])",
             "total = [done.sum(), torch.tensor(float(len(done)))]\n    dist.all_reduce(total[1])",
             "all_reduce(total)", "all_reduce(total[0])", says="One tensor of two numbers needs one call."),
        edit("[:, needed - 1]", "[:, :needed].mean(dim=1)",
             says="This is the mean time of the first `needed`. All of them are done when the last of these is."),
        edit("dim=1", "dim=0", says="You sorted the steps of each worker. Sort the workers of each step: dim=1."),
        edit("needed - 1", "0", says="This waits for one worker alone, the first."),
        edit("times.sort", "times.half().sort", says="That is rounded to float16 on the way."),
        body("""\
most = 60
whole = torch.full((most, times.shape[1]), float("nan"))
whole[: len(times)] = times
everyone = [torch.empty_like(whole) for _ in range(world_size)]
dist.all_gather(everyone, whole)
done = torch.cat(everyone).sort(dim=1).values[:, needed - 1]
return done[~done.isnan()].mean()""", says="Two numbers are enough: a rank can sum up its own log."),
    ),
)  # fmt: skip

LONG, SHORT = 1.0, 0.3
"""Seconds that whoever comes last takes, long against the others' messages; and that another one takes."""
MEET = 5.0
"""Seconds in which all ranks come to begin together: who is late for want of a core is not the late one."""


def _vectors(generator: torch.Generator, size: int) -> Arguments:
    """In a world of 3 the other worker comes last, and not the one that is called late."""
    late = int(torch.randint(1, size, (), generator=generator))
    seed, last = generator.initial_seed(), 3 - late if size == 3 else late
    seconds = SHORT if size == 3 else LONG
    vectors = [torch.randn(5, dtype=torch.float64, generator=generator) for _ in range(size)]
    return [(mine, size - 2, late, seconds, last, seed) for mine in vectors]


def _together(first_mean: Callable[..., Any], arguments: tuple) -> Any:
    """All count from the same moment."""
    *given, last, seed = arguments
    notices.meet(notices.run_of("first_mean", seed), MEET)
    if dist.get_rank() == last != given[2]:
        time.sleep(LONG + SHORT)
    return first_mean(*given)


def _judge_first(answers: Answers) -> str:
    """The first are all workers but the one that comes last."""
    mine, size = [arguments[0] for arguments in answers.arguments], answers.size
    _, needed, _, _, last, _ = answers.arguments[0]
    found, total = answers.found[0], sum(mine[rank] for rank in range(1, size) if rank != last)
    if close(found, total / needed, 1e-9):
        wrong = [rank for rank in range(1, size) if not close(answers.found[rank], mine[rank], 1e-9)]
        nothing = "\nNothing came back: a function without `return` returns None."
        has = f"rank {wrong[0]} is wrong: it has {show(answers.found[wrong[0]])}" if wrong else ""
        return has + nothing * (bool(wrong) and answers.found[wrong[0]] is None)
    others = combinations(range(1, size), needed)
    known = {
        "It is the mean of all workers: do not wait for the last.": [sum(mine[1:]) / (size - 1)],
        "It is the mean of all ranks. Only ranks from 1 on send.": [sum(mine) / size],
        f"Rank {last} came last, and is in it: receive from whoever comes. If you keep what came, each message "
        "needs a buffer of its own: one that is used again holds only the last.": [
            *(sum(mine[rank] for rank in group) / needed for group in others if last in group), mine[last]
        ],
        "It is a sum: divide it by `needed`.": [total],
        "It is divided by the number of workers, the wrong number: divide by `needed`.": [total / (size - 1)],
        "It is divided by the number of ranks, the wrong number: divide by `needed`.": [total / size],
    }  # fmt: skip
    says = [says for says, values in known.items() if any(close(found, value, 1e-9) for value in values)]
    return "\n".join([f"rank 0 is wrong: it has {show(found)}", *says[:1]])


ARRIVE = """\
import time

def first_mean(mine, needed, late, seconds):
    if rank > 0:
        time.sleep(seconds if rank == late else 0)
        dist.send(mine, 0)
        return mine
    total, message = torch.zeros_like(mine), torch.empty_like(mine)
    for arrived in range(1, world_size):
        dist.recv(message)
        if arrived <= needed:
            total += message
    return total / needed
"""
LAST = "came last, and is in it: receive from whoever comes."
FIRST_MEAN = Exercise(
    task="Ranks from 1 on each send their vector `mine` to rank 0; rank `late` sleeps `seconds` before it "
    "sends. Rank 0 returns the mean of the first `needed` vectors that arrive, whoever sent them: another rank "
    "may be later still. The others return `mine`. One message from each of them, none left behind, and no "
    "collective.",
    stub="""\
def first_mean(mine, needed, late, seconds):
    ...  # your code
""",
    solution=ARRIVE,
    why="recv without a source takes the next that comes. A gradient that is not wanted has to be received "
    "all the same, or the next step would take it for its own.",
    hints=(
        "On rank 0: dist.recv(message) without a source, world_size - 1 times.",
        "Add up the first `needed`; receive the others too, and ignore them. Divide by `needed`.",
    ),
    given=_vectors,
    use=_together,
    judge=_judge_first,
    sizes=(3, 4),
    limits=(
        Limit("collectives", lambda arguments: 0, "A collective waits for every rank, the late one, too."),
        Limit("messages", lambda arguments: len(arguments) - 1, "One message from each worker."),
    ),
    wrong=(
        edit("if arrived <= needed", "if arrived", "/ needed", "/ (world_size - 1)", says="It is the mean of all workers"),
        edit("torch.zeros_like(mine)", "mine.clone()", "if arrived <= needed", "if arrived", "/ needed", "/ world_size",
             says="It is the mean of all ranks. Only ranks from 1 on send."),
        edit("if arrived <= needed", "if arrived >= world_size - needed", says=LAST),
        edit("total, message = torch.zeros_like(mine)", "came, message = []", "        if arrived <= needed:\n            total +=",
             "        came.append(message)\n        if 0:\n            total =", "return total", "return sum(came[:needed])",
             says="If you keep what came, each message needs a buffer of its own"),
        edit("recv(message)", "recv(message, late if arrived == world_size - 1 else [r for r in range(1, world_size) "
             "if r != late][arrived - 1])", says=LAST),
        edit("total / needed", "total", says="It is a sum: divide it by `needed`."),
        edit("/ needed", "/ (world_size - 1)", says="the number of workers, the wrong number: divide by `needed`."),
        edit("/ needed", "/ world_size", says="the number of ranks, the wrong number: divide by `needed`."),
        edit("range(1, world_size)", "range(1, needed + 1)", says="rank 0 finished the cell"),
        edit("return mine", "return", says="Nothing came back"),
        edit("return mine", "return 2 * mine", says="is wrong"),
        edit("range(1, world_size)", "range(1, world_size + 1)", says="deadlock: ", hangs=True),
        edit("return mine", "dist.barrier()\n        return mine", "    return total", "    dist.barrier()\n    return total",
             says="A collective waits for every rank, the late one, too."),
        edit("/ needed", "/ needed + 1e-4", says="rank 0 is wrong"),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="11",
    title="Live with stragglers",
    predictions=(Prediction("slowest_of_100", "s"),),
    exercises=(SERVE_FRESH, MEAN_STEP, FIRST_MEAN),
    questions=questions("11"),
)
