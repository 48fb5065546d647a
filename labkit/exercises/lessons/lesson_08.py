"""Lesson 08, Keep the weights on a server: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.exercises.demands import sends_only_to
from labkit.exercises.describe import (
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
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import dist, torch

Request = tuple[int, str]
"""A worker and what it asks for: "pull", "push" or "finish"."""


def _script(generator: torch.Generator, workers: list[int]) -> list[Request]:
    """All requests in their order: at first all pull and all push, so that gradients of others are stale."""

    def shuffled() -> list[int]:
        return [workers[place] for place in torch.randperm(len(workers), generator=generator).tolist()]

    script = [(worker, "pull") for worker in shuffled()] + [(worker, "push") for worker in shuffled()]
    first, *others = shuffled()
    script += [(first, "pull"), (first, "pull"), *((worker, "pull") for worker in others)]
    script += [(worker, "push") for worker in (*others, first)]
    script += [(worker, verb) for worker in others for verb in ("pull", "push", "finish")]
    return [*script, *[(first, "pull"), (first, "push")] * 3, (first, "finish")]


def _server_and_workers(generator: torch.Generator, size: int) -> Arguments:
    """Rank 0: what it serves with. Workers: all requests, and how many weights. In a world of 3 one rank is none.

    The optimiser has a momentum, and the weights have a gradient from before.
    """
    n = int(torch.randint(500, 3_000, (), generator=generator))
    start = torch.randn(2, n, dtype=torch.float64, generator=generator)
    weights = torch.nn.Parameter(start[0])
    weights.grad = start[1]
    rate, momentum, power = (0.2 + 0.5 * torch.rand(3, generator=generator)).tolist()
    one = 1 + int(torch.randint(2, (), generator=generator))
    workers = [one] if size == 3 else list(range(1, size))
    optimizer = torch.optim.SGD([weights], lr=rate, momentum=momentum)
    server = weights, optimizer, workers, lambda staleness: (1 + staleness) ** -power
    return [server, *[(_script(generator, workers), n)] * (size - 1)]


def _work(script: list[Request], size: int) -> None:
    """A worker: make its requests, each in its turn, which a message from the worker before it tells."""
    from labkit.algorithms.parameter_server import finish, pull, push

    me, weights, token = dist.get_rank(), torch.empty(size, dtype=torch.float64), torch.zeros(1)
    for turn, (worker, verb) in enumerate(script):
        before, after = script[max(turn - 1, 0)][0], script[min(turn + 1, len(script) - 1)][0]
        if worker != me:
            continue
        if turn > 0 and before != me:
            dist.recv(token, before)
        if verb == "pull":
            pull(weights, [0])
        elif verb == "push":
            push(0.1 * me * weights + 1, [0])
        else:
            finish([0])
        if after != me:
            dist.send(token, after)


def _by_role(serve: Callable[..., Any], arguments: tuple) -> Any:
    """The learner's server on rank 0; on the others a worker."""
    return serve(*arguments) if dist.get_rank() == 0 else _work(*arguments)


def _served(arguments: tuple, result: Any) -> Any:
    """Split what the server on rank 0 returned: the worker and the staleness of each update, and its weights."""
    if len(arguments) == 2:
        return None
    pairs = isinstance(result, list) and all(isinstance(u, (list, tuple)) and len(u) == 2 for u in result)
    workers, stalenesses = zip(*result, strict=True) if pairs and result else (result, None)
    return {"worker of each update": workers, "staleness of each": stalenesses, "weights": arguments[0]}


def _some_tensors(arguments: Arguments) -> int:
    """Bytes of what a step needs: a gradient, that times its scale, the momentum, and as many to spare."""
    return 7 * arguments[0][0].nbytes


PAIRS = "Return a list of (worker, staleness), one for each update."
COUNTED = "That is made up. Note the version when a worker pulls, and count the updates from then on."
A_VERSION = "That is a version. Subtract the one at the worker's pull from the one when its gradient came."
A_COPY = "A version is a number. Who keeps the weights of each version has soon no memory left."
EACH = "Update with each gradient when it arrives, until all workers have finished."
ORDER = "These are not the workers whose gradients came, in the order in which they came."
WITHOUT = "        update(weights, optimizer, [given * scale(staleness)])\n"
SERVE_ASYNCHRONOUS = Exercise(
    task="Serve until all `workers` have finished; they need not be all other ranks. Answer each pull at once. "
    "Update with each gradient when it arrives, multiplied by `scale(staleness)`: wait for no certain worker. "
    "Return a list of `(worker, staleness)`, one for each update, in their order. Keep no copies of the weights.",
    stub="""\
def my_serve_asynchronous(weights, optimizer, workers, scale=lambda staleness: 1):
    working, version, updates = set(workers), {}, []  # version: by worker, at its pull
    while working:
        worker, verb, given = receive(weights)
        working.clear()  # your code in place of this line
    return updates
""",
    solution=algorithm("parameter_server.serve_asynchronous", "my_serve_asynchronous"),
    why="The version is the number of updates, which is the length of the list. A pull notes it for its "
    "worker; a push compares. The server waits for a message and never for a certain worker: who dies costs "
    "one gradient.",
    hints=(
        "Three kinds of requests, three branches: FINISH takes the worker out of `working`, PULL answers, "
        "PUSH updates.",
        "len(updates) is the version. At a pull: version[worker] = len(updates). What is the "
        "staleness, then, when the gradient comes?",
    ),
    given=_server_and_workers,
    answer=_served,
    judge=like_solution(1e-7, only_rank_0=True),
    use=_by_role,
    uses=tuple(
        f"parameter_server.{name}" for name in ("receive", "answer", "update", "FINISH", "PULL", "PUSH")
    ),
    limits=(Limit("memory", _some_tensors, A_COPY),),
    wrong=(
        edit("- version[worker]", "- len(updates)",
             says="That is never stale. Note the version when a worker pulls, and count the updates from then on."),
        edit("            version[worker] = len(updates)\n", "", "len(updates) - version[worker]",
             "len(updates) - version.get(worker, 0)", "staleness))\n", "staleness))\n            version[worker] = len(updates)\n",
             says="You count from the worker's last push. It got its weights when it pulled: note the version there."),
        edit("(worker, staleness)", "(worker, staleness + 1)",
             says="One too many: this gradient's own update does not make it stale. Count before you update."),
        edit("(worker, staleness)", "(worker, len(updates))", says=A_VERSION),
        edit("(worker, staleness)", "(worker, version[worker])", says=A_VERSION),
        edit("len(updates) - version[worker]", "len(workers) - 1", says=COUNTED),
        edit("scale(staleness)", "1", says="Each gradient counts in full. Multiply it by scale(staleness) before the update."),
        edit("scale(staleness)", "scale(len(updates))",
             says="Each staleness is right, but the weights are not: it is the staleness that belongs into scale."),
        edit(f"    {WITHOUT}", "", says="Nothing was updated."),
        edit("[given * scale(staleness)]", "[given * scale(staleness) * (torch.arange(len(given)) > 0)]",
             says="Each staleness is right, but some weights are not."),
        edit("append((worker, staleness))", "append(staleness)", says=PAIRS),
        edit("return updates", "updates", says=PAIRS),
        edit("append(", "insert(0, ", says=ORDER),
        edit("[given * scale(staleness)])", "[given * scale(staleness)] * (staleness < 2) or [0 * given])", says=EACH),
        edit("len(updates) - version[worker]\n", "len(updates) - version[worker]\n            if staleness > 1:\n"
             "                continue\n", says=EACH),
        edit("            update(weights, optimizer, [given * scale(staleness)])\n",
             "            weights.data -= optimizer.param_groups[0]['lr'] * given * scale(staleness)\n",
             says="Let the optimiser make the step: it may have more than a learning rate."),
        edit("[given * scale(staleness)]", "[(given * scale(staleness)).half().double()]",
             says="That is rounded to float16 on the way."),
        edit("            update(weights, optimizer, [given * scale(staleness)])\n",
             "            weights.grad += given * scale(staleness)\n            optimizer.step()\n",
             says="What was in weights.grad before is in the step, too."),
        edit("working.remove(worker)", "break", says="deadlock", hangs=True),
        edit("            answer(weights, worker, given)\n", "", says="deadlock", hangs=True),
        edit("            answer(weights, worker, given)\n", "            continue\n",
             "    return", "    answer(weights, worker, given)\n    return", says="deadlock", hangs=True),
        edit("set(workers)", "set(range(1, dist.get_world_size()))", says="in a world of 3, deadlock", hangs=True),
        edit("receive(weights)", "receive(weights, sorted(working)[len(updates) % len(working)])",
             says="in a world of 4, deadlock", hangs=True),
        edit("worker, verb, given = receive(weights)", "first, *others = [receive(weights) for _ in working]\n"
             "        worker, verb, given = first", says="deadlock", hangs=True),
        edit("version[worker] = len(updates)", "version[worker] = len(updates)\n            old = version.setdefault('old', [])\n"
             "            old += [weights.detach().clone()]", says=A_COPY),
        edit("version[worker] = len(updates)", "version[worker] = len(updates)\n            old = version.setdefault('old', {})\n"
             "            old[len(updates)] = weights.detach().numpy().copy()", says=A_COPY),
        body("from labkit.algorithms import serve_asynchronous\nreturn serve_asynchronous(weights, optimizer, workers, scale)",
             says="that is what you shall write"),
    ),
    becomes="serve_asynchronous",
    changes=("weights",),
)  # fmt: skip


def _weights_and_gradients(generator: torch.Generator, size: int) -> Arguments:
    n = 4 + int(torch.randint(60, (), generator=generator))
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


STEP = """\
def step_on_server(x):
    weights, gradient = x.clone(), torch.empty_like(x)
    if rank > 0:
        dist.send(x, dst=0)
        dist.recv(weights, src=0)
        return weights
    for _ in range(world_size - 1):
        dist.recv(gradient)  # no src: whoever comes first
        weights -= gradient / (world_size - 1)
    for worker in range(1, world_size):
        dist.send(weights, dst=worker)
    return weights
"""
ANSWERS = "    for worker in range(1, world_size):\n        dist.send(weights, dst=worker)\n"
TOO_EARLY = "A worker was answered before all gradients had come: only its own is in these weights."
ONCE = "Each worker pushes once and is answered once."
STEP_ON_SERVER = Exercise(
    task="One synchronous step without headers. Rank 0 is the server: its `x` are the weights, the `x` of "
    "every other rank is a gradient. All shall return the weights minus the mean of the workers' gradients. "
    "With one worker that is right. With more it runs without an error, and the workers no longer have the "
    "same weights. **Find the bug and mend it.** Budget: one push to the server and one answer for each worker, "
    "both as long as `x`, no collective. Leave `x` as it is.",
    stub=edited(STEP, "(x):", "(x):  # weights on rank 0, a gradient on the others", "        dist.recv(gradient)",
                "        worker = dist.recv(gradient)", ANSWERS, "        dist.send(weights, dst=worker)\n"),
    solution=STEP,
    why="The server answered each worker as soon as its own gradient had come, so the first one got weights "
    "without the gradients of the others. A synchronous server must have all of them before it answers "
    "anybody.",
    hints=(
        "Two workers: which gradients are in the weights that the first one gets back? And the second one?",
        "One loop does two things. Let the first loop end before anybody is answered.",
    ),
    given=_weights_and_gradients,
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers talk in messages."),
        Limit("messages", lambda arguments: 2 * (len(arguments) - 1), ONCE),
        Limit("bytes", lambda arguments: (len(arguments) - 1) * arguments[0][0].nbytes, ONCE),
    ),
    demands=(
        sends_only_to(lambda rank, size: {0} if rank else set(range(1, size)),
                      "A worker talks to the server alone: it knows of no other worker."),
    ),
    wrong=(
        edit("/ (world_size - 1)", "/ world_size",
             says="You divide by the number of ranks, but the server has no gradient: divide by world_size - 1."),
        edit("/ (world_size - 1)", "/ 1", says="You subtract the sum of the gradients, not their mean."),
        edit("weights -=", "weights +=", says="You add the mean. A step goes against the gradient."),
        edit("    for worker", "    weights = x\n    for worker", says="These are the weights before the step."),
        edit("        dist.recv(gradient)", "        worker = dist.recv(gradient)", ANSWERS, "        dist.send(1 * weights, dst=worker)\n",
             says=TOO_EARLY),
        edit("for _ in range(world_size - 1)", "for worker in range(1, world_size)", "recv(gradient)", "recv(gradient, worker)", ANSWERS,
             "        dist.send(weights, dst=worker)\n", says=TOO_EARLY),
        edit("for _ in range(world_size - 1)", "for worker in range(world_size - 1, 0, -1)", "recv(gradient)",
             "recv(gradient, worker)", ANSWERS, "        dist.send(weights, dst=worker)\n", says=TOO_EARLY),
        edit("        dist.recv(weights, src=0)\n        return weights", "        return x", ANSWERS, "",
             says="A worker returns what it was given. It must receive the new weights, into a new tensor."),
        edit("weights, gradient = x.clone()", "weights, gradient = x if rank == 0 else x.clone()",
             says="every rank is right, but rank 0 changed `x`"),
        edit("        dist.send(x, dst=0)\n        dist.recv(weights, src=0)", "        dist.recv(weights, src=0)\n"
             "        dist.send(x, dst=0)", says="deadlock: each waits for another", hangs=True),
        edit("for _ in range(world_size - 1)", "for _ in range(world_size)", says="deadlock", hangs=True),
        body("""\
gradient = x if rank > 0 else torch.zeros_like(x)
dist.reduce(gradient, 0)
weights = x - gradient / (world_size - 1)
dist.broadcast(weights, 0)
return weights""", says="Server and workers talk in messages."),
        edit("        dist.send(x, dst=0)\n", "        dist.send(x, dst=0)\n        dist.recv(torch.empty(1), src=0)\n",
             ANSWERS, f"    for w in range(1, world_size):\n        dist.send(torch.ones(1), w)\n{ANSWERS}", says=ONCE),
        edit("send(weights,", "send(torch.stack([weights, x]),", "weights, src=0)\n        return weights",
             "both, src=0)\n        return both[0].clone()", "    if rank", "    both = torch.stack([x, x])\n    if rank", says=ONCE),
        body("""\
total, came = x if rank else torch.zeros_like(x), torch.empty_like(x)
if rank != 1:
    dist.recv(came, (rank - 1) % world_size)
    total = total + came
if rank:
    dist.send(total, (rank + 1) % world_size)
    dist.recv(came, 0)
    return came
weights = x - total / (world_size - 1)
for worker in range(1, world_size):
    dist.send(weights, worker)
return weights""", says="A worker talks to the server alone: it knows of no other worker."),
        edit("send(x,", "send(x.float(),", "dist.recv(gradient)", "dist.recv(short)", "        weights -= gradient",
             "        weights -= short.double()", "    for _", "    short = x.float()\n    for _",
             says="That is rounded to float32 on the way."),
        edit("for _ in range(world_size - 1)", "for _ in range(min(2, world_size - 1))", says="in a world of 4, deadlock", hangs=True),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="08",
    title="Keep the weights on a server",
    predictions=(Prediction("server_rate", "mini-batches per second"),),
    exercises=(SERVE_ASYNCHRONOUS, STEP_ON_SERVER),
    questions=questions("08"),
)
