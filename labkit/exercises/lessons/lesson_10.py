"""Lesson 10, Do not wait: its prediction, exercises and questions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from labkit import LabError
from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    algorithm,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import close, like_solution, show
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons import notices

RATE = 0.3
PATIENCE, TAKEN = 3.0, 2.0
"""Seconds for which the late worker waits for the server's updates, and any for its gradient to be taken."""
NO_COLLECTIVE = Limit("collectives", lambda arguments: 0, "Server and workers speak by messages alone.")
MESSAGES = "Weights and gradients are a header and a vector each, and finish is a header."


class UntakenGradientError(RuntimeError):
    """The server has dismissed a worker, or has ended, before it took that worker's last gradient."""


class Step:
    """A step of the optimiser that the server calls for each gradient, and that keeps what it was given.

    `held` are the numbers of updates for which this rank, if it is the late worker, holds back its first
    gradients; `pauses` are the seconds that it takes for each otherwise.
    """

    def __init__(self, seed: int, held: list[int], pauses: list[float]) -> None:
        self.seed, self.held, self.pauses, self.run = seed, held, pauses, ""
        self.seen: list[list] = []
        self.stood_still = False

    def __call__(self, weights: torch.Tensor, gradient: torch.Tensor, staleness: int) -> None:
        self.seen.append([gradient.clone(), staleness])
        weights -= RATE * 0.8**staleness * gradient
        notices.tell(f"{self.run}/{len(self.seen)}")

    def gradient(self, number: int, weights: torch.Tensor) -> torch.Tensor:
        """Compute a worker's gradient: each has a minimum of its own, so that it matters whose came when."""
        if number < len(self.held) and not self.stood_still:
            self.stood_still = not notices.heard(f"{self.run}/{self.held[number]}", seconds=PATIENCE)
        time.sleep(self.pauses[number % len(self.pauses)])
        return weights - dist.get_rank()


def _updates(generator: torch.Generator, size: int) -> Arguments:
    """Draw weights, updates and a late worker, which computes until the others have made some updates."""

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    workers, seed = size - 1, generator.initial_seed()
    weights, updates = torch.randn(5, generator=generator), workers * between(4, 7) + between(1, workers)
    late, first = between(1, workers), between(workers, workers + 2)
    held = [first, first + between(1, 3)] if size > 2 else []
    pauses = (0.004 * torch.rand(size, updates, generator=generator)).tolist()
    steps = [Step(seed, held if rank == late else [], pauses[rank]) for rank in range(size)]
    return [(weights.clone(), updates, step) for step in steps]


def _serve_or_work(serve: Callable[..., Any], arguments: tuple) -> Any:
    """Run the learner's server on rank 0, and `labkit.algorithms.work` with its messages on the others.

    A gradient that nobody takes is an error here.
    """
    from labkit.algorithms.parameter_server import ALL, FINISH, PUSH

    weights, _, step = arguments
    step.run = notices.run_of("my_serve", step.seed)
    if dist.get_rank() == 0:
        history = serve(*arguments)
        notices.tell(f"{step.run}/served")
        return history
    number, header = 0, torch.empty(2, dtype=torch.int64)
    dist.recv(header, 0)
    while header[0] != FINISH:
        dist.recv(weights, 0)
        found = step.gradient(number, weights)
        pushing = dist.isend(torch.tensor([PUSH, ALL]), 0)
        answer = dist.irecv(header, 0)
        _until_taken(pushing, answer, f"{step.run}/served")
        dist.send(found, 0)
        answer.wait()
        number += 1
    return None


def _until_taken(pushing: Any, answer: Any, served: str) -> None:
    """Wait for it; UntakenGradientError if the server says something else before, or has ended."""
    begun, ended = time.monotonic(), 0.0
    while not pushing.is_completed() and time.monotonic() < begun + TAKEN:
        time.sleep(0.0005)
        if not ended and (answer.is_completed() or notices.heard(served, seconds=0)):
            ended = time.monotonic()
        if ended and time.monotonic() > ended + TAKEN / 4:  # what was taken is soon known here
            raise UntakenGradientError(
                f"rank {dist.get_rank()} has computed a gradient that nobody takes: the server sent it "
                "weights, and then wanted no more of it"
            )
    pushing.wait()


def _replayed(answers: Answers) -> tuple[list[int], list[int], torch.Tensor]:
    """Replay the updates: which worker each gradient came from, its true staleness, and the final weights.

    The replay ends at the first gradient that no worker can have computed.
    """
    weights = answers.arguments[0][0].clone()
    has = {worker: (0, weights.clone()) for worker in range(1, answers.size)}
    order, stale = [], []
    for version, (gradient, said) in enumerate(answers.found[0]["steps"]):
        whose = [worker for worker, (_, theirs) in has.items() if close(gradient, theirs - worker)]
        if not whose:
            break
        order.append(whose[0])
        stale.append(version - has[whose[0]][0])
        weights -= RATE * 0.8**said * gradient
        has[whose[0]] = version + 1, weights.clone()
    return order, stale, weights


CALL_STEP = (
    "Call step(weights, gradient, staleness) once for each gradient, and answer with the weights after it."
)
NOT_BY_NAME = "Wait for no worker by name: receive(weights) takes the next gradient, whoever sent it."
A_LIST = "Return a list: for each update (worker, staleness)."
A_PAIR = "A pair is (worker, staleness), in this order."
ONE_TOO_HIGH = (
    "The staleness is one too high: the weights that you answer with are those after this update, so their "
    "version is version + 1."
)
OTHER_SIGN = "The sign is wrong: the version now minus the version that the gradient is for."
VERSION_NOW = "That is the version now. Subtract that of the weights that its worker had."
STALENESS = "It is the version now minus that of the weights that its worker had."


def _judge_server(answers: Answers) -> str:
    found, updates = answers.found[0], answers.arguments[0][1]
    history, steps = found["history"], found["steps"]
    if not isinstance(history, list) or not all(isinstance(h, list) and len(h) == 2 for h in history):
        return f"rank 0 returned {show(history)}\n{A_LIST}"
    if len(steps) != updates:
        return f"rank 0 called step {len(steps)} times for {updates} updates\n{CALL_STEP}"
    if waited := [rank for rank, own in enumerate(answers.found) if own["stood still"]]:
        return f"while rank {waited[0]} computed, the server took nobody's gradient\n{NOT_BY_NAME}"
    order, right, weights = _replayed(answers)
    if len(order) < updates:
        return (
            f"update {len(order)}: step got no gradient by the weights of a worker's last answer\n{CALL_STEP}"
        )
    if len(history) != updates:
        return f"rank 0 returned {len(history)} pairs of (worker, staleness) for {updates} updates\n{A_LIST}"
    workers, said = ([pair[i] for pair in history] for i in range(2))
    if workers != order:
        return f"rank 0 names the workers {workers}, and the gradients came from {order}\n{A_PAIR}"
    if said != right:
        n = next(n for n in range(updates) if said[n] != right[n])
        first = {order.index(worker) for worker in order}
        known = {
            ONE_TOO_HIGH: all(said[n] - right[n] == (n not in first) for n in range(updates)),
            OTHER_SIGN: all(said[n] == -right[n] for n in range(updates)),
            VERSION_NOW: said == list(range(updates)),
            STALENESS: True,
        }
        where = f"update {n}, by rank {order[n]}, has staleness {right[n]}, and rank 0 says {said[n]}"
        return f"{where}\n{next(says for says, fits in known.items() if fits)}"
    if [staleness for _, staleness in steps] != right:
        return f"the list is right, and step was given another staleness\n{CALL_STEP}"
    if not close(found["weights"], weights):
        return (
            f"rank 0 has the weights {show(found['weights'])}, after these steps {show(weights)}\n{CALL_STEP}"
        )
    return ""


def _messages_of_server(arguments: Arguments) -> int:
    return len(arguments) - 1 + 4 * arguments[0][1]


UNTAKEN = "has computed a gradient that nobody takes: the server sent it weights"
MY_SERVE = Exercise(
    task="The server of asynchronous SGD, on rank 0. For each of `updates` gradients, in the order in which "
    "they come, whoever sends them: work out its staleness, call `step(weights, gradient, staleness)` once, "
    "and answer its worker with the new weights, or with `finish` if it is not needed any more. Return a "
    "list of `(worker, staleness)`, a pair for each update. No collective, and no other messages than these: "
    "the weights for all at the start, then each gradient and its answer.",
    stub="""\
def my_serve(weights, updates, step):  # on rank 0; the others call work
    workers, history = range(1, dist.get_world_size()), []
    send_weights(workers, weights)
    has = dict.fromkeys(workers, 0)  # of each worker: the version of its weights
    for version in range(updates):
        worker, verb, gradient = receive(weights)
        ...  # your code
    return history
""",
    solution=algorithm("asynchronous_sgd.serve", "my_serve"),
    why="Each worker has one gradient under way, so W gradients are still to come when a worker asks for the "
    "last weights: whoever comes among the last W is dismissed. Nobody is waited for by name, and the "
    "version that a worker has says how old its gradient is.",
    hints=(
        "has[worker] is the version of the weights that the gradient was computed with. How many updates lie "
        "between that and this one, whose version is `version`?",
        "send_weights([worker], weights) answers, and the worker then has version + 1: note it. Each worker "
        "has one gradient under way: with W workers, from which update on is nobody needed any more?",
        "The worker is needed again if version < updates - len(workers); else finish([worker]).",
    ),
    given=_updates,
    answer=lambda arguments, result: {
        "weights": arguments[0], "history": result,
        "steps": arguments[2].seen, "stood still": arguments[2].stood_still,
    },
    judge=_judge_server,
    limits=(Limit("messages", _messages_of_server, MESSAGES),),
    uses=("send_weights", "finish", "parameter_server.receive"),
    becomes="serve",
    changes=("weights",),
    use=_serve_or_work,
    wrong=(
        edit("= version + 1", "= version", says=ONE_TOO_HIGH),
        edit("version - has[worker]", "has[worker] - version", says=OTHER_SIGN),
        edit("version - has[worker]", "version", says=VERSION_NOW),
        edit("(worker, staleness)", "(staleness, worker)", says=A_PAIR),
        edit("        step(weights, gradient, staleness)\n", "", says=CALL_STEP),
        edit("step(weights, gradient, staleness)", "step(weights, gradient, 0)", says=CALL_STEP),
        edit("        step(weights, gradient, staleness)\n", "",
             "    return", "    step(weights, gradient, staleness)\n    return", says=CALL_STEP),
        edit("        step(weights, gradient, staleness)\n", "",
             "worker] = version + 1", "worker] = version + 1\n            step(weights, gradient, staleness)",
             "finish([worker])", "finish([worker])\n            step(weights, gradient, staleness)", says=CALL_STEP),
        edit("return history", "return [staleness for worker, staleness in history]", says=A_LIST),
        edit("return history", "return history[:-1]", says="pairs of (worker, staleness) for"),
        edit("        if version <", "        weights += 0.01\n        if version <", says=CALL_STEP),
        edit("            finish([worker])", "            pass", says="deadlock: ", hangs=True),
        edit("updates - len(workers)", "updates - 1", says=UNTAKEN),
        edit("if version < updates - len(workers)", "if True", "            finish([worker])", "            pass",
             "    return", "    finish(workers)\n    return", says=UNTAKEN),
        edit("if version < updates - len(workers)", "if True", says=UNTAKEN),
        edit("version < updates - len(workers)", "version < updates - 3", says="deadlock: ", hangs=True),
        edit("in range(updates)", "in range(updates + 1)", says="deadlock: ", hangs=True),
        edit("    has =", "    [receive(weights) for _ in workers]\n    send_weights(workers, weights)\n    has =",
             says=MESSAGES),
        edit("    has =", "    dist.all_reduce(torch.zeros(1))\n    has =", says="deadlock: ", hangs=True),
        edit("receive(weights)", "receive(weights, 1 + version % len(workers))", says=NOT_BY_NAME),
        edit("    for version", "    came = []\n    for version",
             "receive(weights)", "came.pop(0) if came else (came := [receive(weights) for _ in range(min(len(workers), updates - version))]).pop(0)",
             says=NOT_BY_NAME),
        edit("(worker, staleness)", "(worker, min(version, len(workers) - 1))", says=STALENESS),
        edit("(worker, staleness)", "(1 + version % len(workers), min(version, len(workers) - 1))", says=A_PAIR),
        body("from labkit.algorithms import serve\nreturn serve(weights, updates, step)",
             says="that is what you shall write"),
    ),
)  # fmt: skip


def _gossip(generator: torch.Generator, size: int) -> Arguments:
    """Too many numbers for a message to have left when isend returns; among three some rank gets two."""
    numbers = int(torch.randint(20_000, 30_000, (), generator=generator))
    weights = torch.randn(size, numbers, generator=generator, dtype=torch.float64)
    shares = 0.5 + torch.rand(size, 1, generator=generator, dtype=torch.float64)
    to: list[int] = []
    while not to or len(set(to)) == size > 2:
        shifts = torch.randint(1, size, (size,), generator=generator).tolist()
        to = [(rank + shift) % size for rank, shift in enumerate(shifts)]
    return [(mine.clone(), to) for mine in torch.cat([weights, shares], dim=1)]


GOSSIP = """\
def gossip_round(mine, to):
    mine, message = mine.clone(), torch.empty_like(mine)
    mine[-1] /= 2
    sending = dist.isend(mine.clone(), to[rank])
    for _ in range(to.count(rank)):
        dist.recv(message)
        mix(mine, message)
    sending.wait()
    return mine
"""
ONE_EACH = "Each rank sends one message."
GOSSIP_ROUND = Exercise(
    task="One round of gossip. `mine` is a vector of weights with the rank's share behind them. Rank `r` "
    "gives half of its share, with its weights, to rank `to[r]`; some ranks get several messages, others "
    "none. Each returns what it has after it has mixed in all that came to it. Now and then a rank gets "
    "numbers that nobody has sent. **Find the bug and mend it.** Each rank sends one message, and calls no "
    "collective.",
    stub=edited(GOSSIP, "isend(mine.clone(), ", "isend(mine, ",
                "to.count(rank)):", "to.count(rank)):  # so many messages come"),
    solution=GOSSIP,
    why="What is sent must not change while it is under way, and mix changes `mine`. With a copy of its own "
    "the message is safe; a small one would often have left before, so the bug sleeps until a model grows.",
    hints=(
        "To whom does a tensor belong between isend and wait (lesson 01)?",
        "mix writes into `mine`, which may still be on its way. What is sent must be a tensor of its own.",
    ),
    given=_gossip,
    uses=("mix",),
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: 0, "Gossip is messages between two."),
        Limit("messages", len, ONE_EACH, least=len, too_little=ONE_EACH),
    ),
    wrong=(
        edit("    sending = ", "    kept = 2 * mine[-1]\n    sending = ", "    for", "    mine[-1] = kept\n    for",
             says="The share that was given away was kept, too: there is more than R of it now."),
        edit("    mine[-1] /= 2\n", "", says="Nobody halved: halve the share before it is sent."),
        edit("    for _", "    came = [mine.clone()]\n    for _", "mix(mine, message)", "came.append(message.clone())",
             "    sending.wait()\n", "    sending.wait()\n    share = sum(m[-1] for m in came)\n"
             "    mine = sum(came) / len(came)\n    mine[-1] = share\n",
             says="Weights count by their share: this is their plain mean. mix does it right."),
        edit("        mix(mine, message)\n", "",
             says="The rank's own share was halved, but nothing that came was mixed in."),
        edit("for _ in range(to.count(rank))", "for source in [r for r, other in enumerate(to) if other == rank]",
             "recv(message)", "recv(message, source)", "        mix(mine, message)\n",
             "    if to.count(rank):\n        mix(mine, message)\n",
             says="Only the message that came last is mixed in: `message` is written anew by each recv."),
        edit("    mine[-1] /= 2\n", "    to = [(2 * r - other) % world_size for r, other in enumerate(to)]\n"
             "    mine[-1] /= 2\n", says="Rank r gives to rank to[r]: these went the other way round."),
        edit("mine.clone(), to[", "mine, dst=to[", says="changes a tensor that isend is still sending"),
        edit("    sending.wait()\n", "", says="never waits for its isend: call wait() on what it returned"),
        edit("message = mine.clone()", "message = mine", says="rank 0 changed `mine`, which its caller goes on using"),
        body("return mine", says="This is what the rank had before."),
        edit("mix(mine, message)", "mix(mine, message.float())",
             says="What came is right to float32 only: keep the numbers in float64."),
        edit("    return mine", "    return mine.float()",
             says="the numbers are float32, and float64 was asked for"),
        edit("    sending =", "    dist.recv(message)\n    sending =", says="deadlock: ", hangs=True),
        body("""\
mine, told = mine.clone(), [torch.empty_like(mine) for _ in to]
mine[-1] /= 2
dist.all_gather(told, mine)
for theirs, other in zip(told, to):
    if other == rank:
        mix(mine, theirs)
return mine""", says="Gossip is messages between two."),
        body("""\
mine, parts = mine.clone(), [torch.empty_like(mine) for _ in to]
mine[-1] /= 2
parts[rank] = mine.clone()
works = [dist.isend(parts[rank], r) for r in range(world_size) if r != rank]
for r in range(world_size):
    if r != rank:
        dist.recv(parts[r], r)
    if to[r] == rank:
        mix(mine, parts[r])
for work in works:
    work.wait()
return mine""", says="in a world of 3, every rank is right, but over budget: messages in all"),
    ),
)  # fmt: skip


class Slope:
    """The gradient of a worker's loss, whose minimum no other rank knows; `asked` counts its calls."""

    def __init__(self, minimum: torch.Tensor) -> None:
        self.minimum, self.asked = minimum, 0

    def __call__(self, weights: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 0:
            raise LabError(
                "a gradient from rank 0", WORKERS_COMPUTE, "take what receive(weights, worker) gives"
            )
        self.asked += 1
        return (weights - self.minimum).tanh()


WORKERS_COMPUTE = "the server has no data, and the workers compute"
ROUNDS = 4
"""How often each worker comes, on average."""


def _arrivals(generator: torch.Generator, size: int) -> Arguments:
    """Weights, an order in which every worker comes at least once, a step size, and each rank's own gradient.

    With two workers or more a staleness above 1 occurs, for only there it matters what the step is divided
    by; and the order is not that of the ranks.
    """
    weights, order, rate = (
        torch.randn(5, generator=generator),
        [],
        0.3 + 0.3 * torch.rand(1, generator=generator),
    )
    while not order or (size > 2 and (_oldest(order) < 2 or order == sorted(order))):
        often = torch.randint(1, size, ((ROUNDS - 1) * (size - 1),), generator=generator)
        every = torch.cat([often, torch.arange(1, size)])
        order = every[torch.randperm(len(every), generator=generator)].tolist()
    slopes = map(Slope, torch.randn(size, 5, generator=generator))
    return [(weights.clone(), order, rate.item(), slope) for slope in slopes]


def _oldest(order: list[int]) -> int:
    """The largest staleness: updates between two gradients of a worker, or before its first."""
    last = {worker: [-1, *(n for n, other in enumerate(order) if other == worker)] for worker in set(order)}
    return max(b - a - 1 for at in last.values() for a, b in zip(at, at[1:], strict=False))


def _messages_of_order(arguments: Arguments) -> int:
    return len(arguments) - 1 + 4 * len(arguments[0][1])


SERVE_DIVIDED = Exercise(
    task="Rank 0 is the server; the workers' part is there: each computes with its own `slope`. Take the gradients in the order of `order`, a "
    "list of ranks in which each worker comes at least once. Divide the step `rate` of each by its staleness "
    "plus 1, and change `weights` in place. Answer each gradient with the new weights, and a worker's last "
    "one with `finish`. Send nothing else, and call no collective.",
    stub="""\
def serve_divided(weights, order, rate, slope):
    if rank > 0:
        return work(slope, len(weights))
    ...  # your code: receive(weights, worker) for each worker of order
    return weights
""",
    solution="""\
def serve_divided(weights, order, rate, slope):
    if rank > 0:
        return work(slope, len(weights))
    send_weights(range(1, world_size), weights)
    has = dict.fromkeys(order, 0)
    for version, worker in enumerate(order):
        worker, verb, gradient = receive(weights, worker)
        weights -= rate / (version - has[worker] + 1) * gradient
        if worker in order[version + 1 :]:
            send_weights([worker], weights)
            has[worker] = version + 1
        else:
            finish([worker])
    return weights
""",
    why="The server remembers which version each worker has, and so how old its gradient is. A fresh "
    "gradient keeps its full step, and a stale one cannot throw the weights far.",
    hints=(
        "Begin as `serve` does: send_weights to all workers, who then have version 0. Then one pass over "
        "`order`, with its index as the version.",
        "The staleness is the index minus the version that the worker has. A worker comes again if it is in "
        "order[version + 1 :].",
    ),
    given=_arrivals,
    uses=("send_weights", "work", "finish", "parameter_server.receive"),
    changes=("weights",),
    answer=lambda arguments, result: result if result is None else [arguments[0], result, arguments[3].asked],
    judge=like_solution(1e-5),
    limits=(
        NO_COLLECTIVE,
        Limit("messages", _messages_of_order, MESSAGES),
    ),
    wrong=(
        edit("rate / (version - has[worker] + 1)", "rate",
             says="Every step has its full length. Divide it by staleness + 1."),
        edit("(version - has[worker] + 1)", "max(1, version - has[worker])",
             says="A fresh gradient has staleness 0, and one that is one update old has 1: divide by the staleness "
             "plus 1."),
        edit("= version + 1\n", "= version\n", says=ONE_TOO_HIGH.replace("version + 1", "the index plus 1")),
        edit("(version - has[worker] + 1)", "(version + 1)",
             says="Each step is divided by the number of updates so far. The staleness is counted from the version "
             "that its worker has."),
        edit("(version - has[worker] + 1)", "world_size",
             says="Each step is divided by the number of ranks. The staleness is another number for each gradient."),
        edit("enumerate(order)", "enumerate(sorted(order))", "in order[version + 1 :]", "in sorted(order)[version + 1 :]",
             says="The gradients were taken in the order of the ranks: take them in the order of `order`."),
        edit("    send_weights(range", "    weights = weights.clone()\n    send_weights(range",
             says="`weights` is as it was: change it in place, weights -= ..."),
        edit("* gradient", "* gradient.bfloat16()",
             says="The gradients were rounded to 16 bits."),
        edit("else:\n            finish([worker])", "else:\n            pass", hangs=True,
             says="deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in recv"),
        edit("    send_weights(range(1, world_size), weights)\n", "", says="deadlock: ", hangs=True),
        edit("range(1, world_size), weights)", "range(1, 3), weights)", says="in a world of 2, "),
        edit("    has =", "    for worker in range(1, world_size):\n        receive(weights, worker)\n"
             "        send_weights([worker], weights)\n    has =", says=MESSAGES),
        edit("        weights -=", "        gradient = slope(weights)\n        weights -=", says=WORKERS_COMPUTE),
        edit("order, 0)\n", "order, 0)\n    theirs = dict.fromkeys(order, weights.clone())\n",
             "        weights -=", "        gradient = (theirs[worker] - worker).tanh()\n        weights -=",
             "= version + 1\n", "= version + 1\n            theirs[worker] = weights.clone()\n",
             says="These are no worker's gradients: the server made them up, and took none of those that came."),
        edit("work(slope,", "work(lambda w: slope.minimum,", "order, 0)\n",
             "order, 0)\n    theirs = dict.fromkeys(order, weights.clone())\n",
             "        weights -=", "        gradient = (theirs[worker] - gradient).tanh()\n        weights -=",
             "= version + 1\n", "= version + 1\n            theirs[worker] = weights.clone()\n",
             says="The weights are right, but the workers have computed no gradient: each calls its own `slope`."),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="10",
    title="Do not wait: asynchronous SGD",
    predictions=(Prediction("mean_staleness", "updates"),),
    exercises=(MY_SERVE, GOSSIP_ROUND, SERVE_DIVIDED),
    questions=questions("10"),
)
