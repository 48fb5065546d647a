"""Lesson 25, Choose: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.cases import EachLikeSolution, each
from labkit.exercises.describe import (
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
from labkit.exercises.lazy_torch import torch

HERE = "Each rank can compute that alone."
ALONE = (Limit("collectives", lambda arguments: 0, HERE), Limit("messages", lambda arguments: 0, HERE))


def _whole(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high, (), generator=generator))


def _share(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def _shuffled(cases: list[tuple], generator: torch.Generator) -> list[tuple]:
    return [cases[place] for place in torch.randperm(len(cases), generator=generator).tolist()]


WAYS = "asynchronous", "synchronous", "server", "local steps"


def _links(generator: torch.Generator, size: int) -> Arguments:
    """Per rank each way, with a server's link that is nearly full, just full, and more than full."""

    def case(way: str, full: float) -> tuple[str, int, float, int, float, float]:
        """An asynchronous step of which the server's link takes this part, or more than all."""
        R, n = _whole(generator, 6, 20), 4 * _whole(generator, 10_000, 90_000)
        t, alpha = 1 + _share(generator), 1e-2 * (1 + _share(generator))
        return way, R, t, n, alpha, full * (t / (R - 1) + 2 * alpha) / n / (R - 1 - 2 * full)

    parts = [0.2, 0.95, 1.05, 1.9]
    return [(_shuffled([case(way, full) for way in WAYS for full in parts], generator),) for _ in range(size)]


SERVER = "Rank 0 computes nothing there: R - 1 workers share t."
STEP_TIME = Exercise(
    task='Return the seconds of a step for `way`, which is "synchronous", "server", "asynchronous" or "local '
    "steps\" (once in 4 steps). Take the numbers of the table. The server's link is full with $R - 1$ "
    "gradients of $n$ bytes: an asynchronous step takes no less than those. Send no message.",
    stub="""\
def my_step_time(way, R, t, n, alpha, beta):
    ...  # your code
""",
    solution="""\
def my_step_time(way, R, t, n, alpha, beta):
    ring = 2 * (R - 1) * (alpha + n / R * beta)
    return {
        "synchronous": t / R + ring,
        "local steps": t / R + ring / 4,
        "server": t / (R - 1) + 2 * alpha + 2 * (R - 1) * n * beta,
        "asynchronous": max(t / (R - 1) + 2 * (alpha + n * beta), (R - 1) * n * beta),
    }[way]
""",
    why="A planner is a table of such formulas and a loop over all configurations. Each term is one of an "
    "earlier lesson; what is new is to have them side by side, in the same units.",
    hints=(
        "First the ring, for two of the four: 2 (R - 1) messages of n / R bytes, each alpha + n / R * beta.",
        "With a server R - 1 ranks compute. In step, its link carries R - 1 copies of the weights, then "
        "R - 1 gradients. The asynchronous step is the larger of two times: max(...).",
    ),
    given=_links,
    use=each,
    judge=EachLikeSolution(1e-6),
    limits=ALONE,
    wrong=(
        edit('r": t / (R - 1)', 'r": t / R', "max(t / (R - 1)", "max(t / R", says=SERVER),
        edit('r": t / (R - 1)', 'r": t / R', says=SERVER),
        edit("max(t / (R - 1)", "max(t / R", says=SERVER),
        edit("2 * (R - 1) * (", "(R - 1) * (", says="A ring has two halves, of R - 1 messages each."),
        edit("n / R * beta", "n * beta",
             says="These are rings of whole tensors. A message of the ring has n / R bytes."),
        edit("ring / 4", "ring", says="Local steps talk once in 4 steps."),
        edit("t / R + ring / 4", "(t / R + ring) / 4",
             says="Local steps compute in every step: only the ring is left out in 3 of 4."),
        edit("max(t / (R - 1) + 2 * (alpha + n * beta), (R - 1) * n * beta)", "t / (R - 1) + 2 * (alpha + n * beta)",
             says="With many workers the server's link is full: no less than (R - 1) n beta."),
        edit("max(t", "sum((t", "(R - 1) * n * beta),\n", "(R - 1) * n * beta)),\n",
             says="Those two are not one after the other: workers compute while the server's link is full. The "
             "larger counts."),
        edit("max(t / (R - 1) + 2 * (alpha + n * beta), (R - 1) * n * beta)", "(R - 1) * n * beta",
             says="The server's link is full only if that takes longer than one worker's step: the larger counts."),
        edit("2 * alpha + 2 * (R - 1) * n", "2 * alpha + 2 * n",
             says="The server's link carries what all R - 1 workers get and send."),
        edit("2 * alpha + 2 * (R - 1) * n", "2 * alpha + (R - 1) * n",
             says="The server's link carries R - 1 gradients, and then R - 1 copies of the weights."),
        edit("    ring", "    t = 0\n    ring", says="The computing is missing."),
        edit("    ring", "    alpha = 0\n    ring", says="The seconds of each message, alpha, are missing."),
        edit("    ring", "    R = world_size\n    ring", says="R is an argument: a planner asks about other numbers of "
             "ranks than this lab has."),
        edit("    ring", "    R = 4\n    ring", says=" wrong"),
        edit("return {", "return round({", "[way]", "[way], 3)", says=" wrong"),
        edit("[way]\n", "[way] * (1 + 1e-5)\n", says=" wrong"),
        body("return 0.5", says=" wrong"),
        edit("return {", "found = {", says="Nothing came back"),
        edit("[way]\n", "[way] + rank\n", says="rank 1 is wrong"),
        edit("    ring", "    if rank == 0:\n        dist.barrier()\n    ring", says="deadlock: ", hangs=True),
    ),
    becomes="step_time",
)  # fmt: skip


def _pipelines(generator: torch.Generator, size: int) -> Arguments:
    """The same on all ranks: more micro-batches than stages, as many, one fewer or more, and only one."""

    def case(more: int) -> tuple[int, ...]:
        pipeline, data = _whole(generator, 6, 10), _whole(generator, 3, 5)
        microbatches, microbatch = max(1, pipeline + more), (2, 5)[_whole(generator, 0, 2)]
        layers, layer = pipeline * _whole(generator, 2, 6), _whole(generator, 10**5, 10**7)
        parameters = pipeline * _whole(generator, 10**6, 10**9)
        return parameters, layers, layer, data, pipeline, microbatches * data * microbatch, microbatch

    return [(_shuffled([case(more) for more in (-9, -1, 0, 1, 9, 60)], generator),)] * size


UNDER_WAY = "min(pipeline, batch // data // microbatch)"
PLANNED = f"""\
def rank_bytes(parameters, layers, layer, data, pipeline, batch, microbatch):
    state = 16 * parameters / pipeline
    under_way = {UNDER_WAY}
    return state + under_way * microbatch * layer * layers / pipeline
"""
RANK_BYTES = Exercise(
    task="This planner says how many bytes the first of `pipeline` stages needs, with the schedule 1F1B of "
    "lesson 17. `layer` is what a layer stores of one sample. It rejects configurations that run well, the "
    "more so the larger the batch. **Find the bug and mend it.** Send no message.",
    stub=edited(PLANNED, UNDER_WAY, "batch // data // microbatch"),
    solution=PLANNED,
    why="GPipe stores all micro-batches of a step. 1F1B goes backward as soon as it can: its first stage has "
    "as many under way as there are stages, and no more than there are. A planner that errs upward looks "
    "safe, and sends you to more devices than you need.",
    hints=(
        "Double the batch: which term grows? Does 1F1B store more then?",
        "With 1F1B stage s stores at most `pipeline` - s micro-batches; a step may have fewer.",
    ),
    given=_pipelines,
    use=each,
    judge=EachLikeSolution(1e-9),
    limits=ALONE,
    wrong=(
        edit(UNDER_WAY, "batch // (data * microbatch)",
             says="That is GPipe's memory: all micro-batches of the step. 1F1B goes backward before."),
        edit(UNDER_WAY, "pipeline",
             says="There are fewer micro-batches than stages, and no more than there are can be under way."),
        edit(UNDER_WAY, "1",
             says="The first stage has more than one micro-batch under way: they come back only from the last."),
        edit(UNDER_WAY, "0", says="The activations are missing."),
        edit("state = 16 * parameters / pipeline", "state = 16 * parameters",
             says="A stage has the state of its own layers only."),
        edit(UNDER_WAY, f"{UNDER_WAY} - 1", says="That is what the last stage but one stores."),
        edit(UNDER_WAY, "max(pipeline, batch // data // microbatch)",
             says="Both numbers are upper bounds: the smaller one counts."),
        edit("batch // data //", "batch //",
             says="Each replica has its part of the batch alone: batch // data samples."),
        edit("batch // data // microbatch", "batch // data",
             says="Micro-batches are under way, not samples: their number is the replica's samples by `microbatch`."),
        edit("under_way * microbatch *", "under_way *",
             says="A layer stores `layer` of each sample, and a micro-batch has several."),
        edit("layer * layers / pipeline", "layer * layers", says="A stage stores what its own layers store, not all."),
        edit("min(pipeline,", "min(pipeline - rank,",
             says="The first stage was asked for, on every rank."),
        edit("min(pipeline,", "min(8,", says=" wrong"),
        edit(UNDER_WAY, "(batch // data // microbatch) / 2", says=" wrong"),
        edit("return state", "return torch.tensor(state)", says=" wrong"),
        edit("    return state", "    total = state", says="Nothing came back"),
        edit("    state", "    if rank == 0:\n        dist.barrier()\n    state", says="deadlock: ", hangs=True),
    ),
)  # fmt: skip


def _offers(generator: torch.Generator, size: int) -> Arguments:
    """The same on all ranks: plans in any order, of which some or none keep to a budget, and one just does.

    The cheapest that keeps to it is neither the fastest, nor the least memory, nor the fewest devices.
    """
    plans = [
        (4, 1.5, 60),  # the cheapest, and too large
        (2, 3.5, 30),  # the fewest devices, and too slow
        (8, 1.25, 35),  # the cheapest that keeps to both
        (16, 0.75, 20),  # the fastest, and the least memory
        (6, 2.0, 38),  # the fewest devices that keep to both
    ]

    def case(seconds: float, memory: float) -> tuple[list[tuple], float, float]:
        slower, larger = 2.0 ** _whole(generator, -2, 6), 2**30 * _whole(generator, 1, 4)
        scaled = [(devices, slower * s, larger * m) for devices, s, m in _shuffled(plans, generator)]
        return scaled, slower * seconds, larger * memory

    budgets = [(2.0, 40), (1.25, 40), (2.0, 35), (1.0, 30), (2.0, 10), (0.5, 60), (4.0, 64), (4.0, 30)]
    return [(_shuffled([case(*budget) for budget in budgets], generator),)] * size


LARGE = "That plan is larger than `memory`: it does not fit, however cheap it is."
SLOW = "That plan is too slow: its step takes more than `seconds`."
COST = "That plan keeps to the budget, and another costs fewer device-seconds a step: devices times seconds."
CHEAPEST = Exercise(
    task="`plans` is a list of (devices, seconds of a step, bytes of a device). You pay for each device and "
    "second. Return the place in the list of the cheapest plan whose step takes at most `seconds` and "
    "needs at most `memory` bytes, or -1 if there is none. Send no message.",
    stub="""\
def cheapest(plans, seconds, memory):
    ...  # your code
""",
    solution="""\
def cheapest(plans, seconds, memory):
    fit = [i for i, (_, s, m) in enumerate(plans) if s <= seconds and m <= memory]
    return min(fit, key=lambda i: plans[i][0] * plans[i][1], default=-1)
""",
    why="Reject first, then rank: a plan that does not fit has no price. The cheapest is as a rule neither "
    "the fastest nor the one with the fewest devices: more devices than can be kept busy cost more for each "
    "sample.",
    hints=(
        "Two steps: the places of all plans that keep to both limits; of those the least product.",
        "min(places, key=..., default=-1) is -1 where no place is left.",
    ),
    given=_offers,
    use=each,
    judge=EachLikeSolution(),
    limits=ALONE,
    wrong=(
        edit("plans[i][0] * plans[i][1]", "plans[i][1]", says=COST),
        edit("plans[i][0] * plans[i][1]", "plans[i][0]", says=COST),
        edit("plans[i][0] * plans[i][1]", "plans[i][2]", says=COST),
        edit("plans[i][0] * plans[i][1]", "plans[i][0] * plans[i][1] * plans[i][2]", says=COST),
        edit("min(", "max(", says="That is the dearest plan that keeps to the budget."),
        body("return next((i for i, (_, s, m) in enumerate(plans) if s <= seconds and m <= memory), -1)",
             says="That is the first plan that keeps to the budget. Look at the others, too."),
        edit(" and m <= memory", "", says=LARGE),
        edit("s <= seconds and ", "", says=SLOW),
        body("i = min(range(len(plans)), key=lambda i: plans[i][0] * plans[i][1])\n"
             "return i if plans[i][1] <= seconds and plans[i][2] <= memory else -1",
             says="The cheapest of all does not keep to the budget. Reject first, then take the cheapest of the others."),
        edit("s <= seconds", "s < seconds", says="A step of just `seconds` is allowed: at most."),
        edit("m <= memory", "m < memory", says="A plan that needs just `memory` bytes fits: at most."),
        edit(" and ", " or ", says="A plan must keep to both limits, not to one of them."),
        body("return -1", says="It says that none keeps to the budget, and some do."),
        edit("default=-1", "default=None", says=" wrong"),
        edit(", default=-1", "", says="ValueError"),
        edit("return min", "fit = [plans[i] for i in fit]\n    return min", "plans[i][0] * plans[i][1]", "i[0] * i[1]",
             says="Return a place in the list, from 0 on, or -1, not the plan itself."),
        edit("default=-1)", "default=-2) + 1", says="Places are counted from 0 on."),
        body("return len(plans) // 2", says=" wrong"),
        edit("return min", "found = min", says="Nothing came back"),
        edit("default=-1)", "default=-1) if rank == 0 else -1", says="rank 1 is wrong"),
        body("plans.sort(key=lambda plan: plan[0] * plan[1])\n"
             "return next((i for i, (_, s, m) in enumerate(plans) if s <= seconds and m <= memory), -1)", says=" wrong"),
        edit("    fit", "    if rank == 0:\n        dist.barrier()\n    fit", says="deadlock: ", hangs=True),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="25",
    title="Choose: one loop, every strategy",
    predictions=(
        Prediction("slower_than_one", "strategies"),
        Prediction("percent_of_peak", "per cent"),
    ),
    exercises=(STEP_TIME, RANK_BYTES, CHEAPEST),
    questions=questions("25"),
)
