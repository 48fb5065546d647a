"""An asynchronous server with versions, the heart of lesson 08."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Answers, Exercise, Limit
from labkit.exercises.judge import Mistake, compare_rank_0
from labkit.exercises.lessons.scripted_workers import START, Served, by_role, given, served


def _stalenesses(made: Served) -> list[float]:
    return [float(staleness) for _, staleness in made.updates]


_A_VERSION = "That is a version. Subtract the one at the worker's pull from the one when its gradient came."
_compare_stalenesses = compare_rank_0(
    lambda arguments: [_stalenesses(served(arguments))],
    Mistake(
        "That is never stale. Note the version when a worker pulls, and count the updates from then on.",
        lambda arguments: [[0.0] * len(served(arguments).updates)],
    ),
    Mistake(
        "You count from the worker's last push. It got its weights when it pulled: note the version there.",
        lambda arguments: [_stalenesses(served(arguments, since="push"))],
    ),
    Mistake(
        "One too many: this gradient's own update does not make it stale. Count before you update.",
        lambda arguments: [[s + 1 for s in _stalenesses(served(arguments))]],
    ),
    Mistake(_A_VERSION, lambda arguments: [list(map(float, range(len(served(arguments).updates))))]),
    Mistake(_A_VERSION, lambda arguments: [[n - s for n, s in enumerate(_stalenesses(served(arguments)))]]),
)
_compare_weights = compare_rank_0(
    lambda arguments: [served(arguments).weight],
    Mistake("Nothing was updated.", lambda arguments: [START]),
    Mistake(
        "Each gradient counts in full. Multiply it by scale(staleness) before the update.",
        lambda arguments: [served(arguments, scaled=False).weight],
    ),
)


def _answer(arguments: tuple, result: Any) -> Any:
    """Of rank 0 its list, and a weight; or the range of them, if they differ."""
    if len(arguments) == 2:
        return None
    weights = arguments[0].detach()
    return result, [weights.min(), weights.max()]


def _judged(answers: Answers) -> str:
    result, weights = answers.found[0]
    expected = served(answers.arguments).updates
    pairs = [u for u in result if isinstance(u, list) and len(u) == 2] if isinstance(result, list) else None
    if pairs is None or len(pairs) != len(result):
        return f"rank 0 returned {result!r:.60}\nReturn a list of (worker, staleness), one for each update."
    if len(pairs) != len(expected):
        return (
            f"rank 0 tells of {len(pairs)} updates, and {len(expected)} gradients came\n"
            "Update with each gradient when it arrives, until all workers have finished."
        )
    if [worker for worker, _ in pairs] != [worker for worker, _ in expected]:
        return "rank 0 names other workers than those whose gradients came, or in another order"
    others = [0] * (answers.size - 1)
    stalenesses = Answers(answers.arguments, [[float(staleness) for _, staleness in pairs], *others])
    if said := _compare_stalenesses(stalenesses):
        return f"the staleness of the updates is not right\n{said}"
    if said := _compare_weights(Answers(answers.arguments, [weights[0], *others])):
        return f"each staleness is right, but the weights are not\n{said}"
    return "" if weights[0] == weights[1] else "each staleness is right, but some weights are not"


SERVE_ASYNCHRONOUS = Exercise(
    task="Serve until all `workers` have finished. Answer each pull at once. Update with each gradient when "
    "it arrives, multiplied by `scale(staleness)`. Return a list of `(worker, staleness)`, one for each "
    "update, in their order. Keep no copies of the weights.",
    stub="""\
def my_serve_asynchronous(weights, optimizer, workers, scale=lambda staleness: 1):
    working, version, updates = set(workers), {}, []  # version: by worker, at its pull
    while working:
        worker, verb, given = receive(weights)
        working.clear()  # your code in place of this line
    return updates
""",
    solution="""\
def my_serve_asynchronous(weights, optimizer, workers, scale=lambda staleness: 1):
    working, version, updates = set(workers), {}, []
    while working:
        worker, verb, given = receive(weights)
        if verb == FINISH:
            working.remove(worker)
        elif verb == PULL:
            version[worker] = len(updates)
            answer(weights, worker, given)
        else:
            staleness = len(updates) - version[worker]
            update(weights, optimizer, [given * scale(staleness)])
            updates.append((worker, staleness))
    return updates
""",
    why="The version is the number of updates, which is the length of the list. A pull notes it for its "
    "worker; a push compares. The server waits for a message and never for a certain worker: who dies costs "
    "one gradient.",
    hints=(
        "Three kinds of requests, three branches: FINISH takes the worker out of `working`, PULL answers, "
        "PUSH updates.",
        "len(updates) is the version. At a pull: version[worker] = len(updates). What is the "
        "staleness, then, when the gradient comes?",
    ),
    given=given,
    answer=_answer,
    judge=_judged,
    use=by_role,
    uses=tuple(
        f"parameter_server.{name}" for name in ("receive", "answer", "update", "FINISH", "PULL", "PUSH")
    ),
    limits=(
        Limit(
            "memory",
            lambda arguments: (14 + len(served(arguments).updates)) * arguments[0][0].nbytes,
            "A version is a number. Who keeps the weights of each version has soon no memory left.",
        ),
    ),
    becomes="serve_asynchronous",
    changes=("weights",),
)
