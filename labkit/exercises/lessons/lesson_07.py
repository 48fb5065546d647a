"""Lesson 07, Choose the algorithm: its prediction, exercises and questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit import LabError
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
from labkit.exercises.lazy_torch import dist, torch
from labkit.rank.wording import ranks


def _case(generator: torch.Generator, size: int) -> Arguments:
    """A number of ranks that is no power of two, bytes, and what a message and a byte cost."""
    R = 2 ** int(torch.randint(4, 11, (), generator=generator)) + int(
        torch.randint(2, 9, (), generator=generator)
    )
    alpha = 1e-6 * int(torch.randint(10, 90, (), generator=generator))
    beta = 1e-10 * int(torch.randint(2, 9, (), generator=generator))
    return [(R, int(torch.randint(4, 10**8, (), generator=generator)), alpha, beta)] * size


def _choices(fastest: Callable[..., Any], arguments: tuple) -> dict[str, Any]:
    """What it chooses for other ranks too, powers of two and not, just below and above where two take equally long."""
    ranks, n, alpha, beta = arguments
    found, power = {}, 2 ** (ranks.bit_length() - 1)
    for R in (ranks, 2, 3, 4, 5, 6, 7, 8, power - 1, power, power + 1):
        P = 2 ** (R.bit_length() - 1)
        messages = 2 * (R - 1) - 2 * (P.bit_length() - 1) - 2
        equal = messages * alpha / (2 * (P - 1) / P + 2 - 2 * (R - 1) / R) / beta
        near = [round(share * equal) for share in (0.4, 0.7, 0.85, 0.96, 1.04, 1.2, 1.5, 2.5) if equal > 0]
        for some in dict.fromkeys((n, n % 1000 + 4, *near)):
            chosen = fastest(R, some, alpha, beta)
            either = R == 2 and isinstance(chosen, str) and chosen in ("ring", "halving")
            case = f"R = {R}, n = {some:,}, {1e6 * alpha:.0f} us a message, {8e-9 / beta:.3g} Gbit/s"
            found[case] = "ring or halving" if either else chosen
    return found


ALONE = "Each rank can compute that alone."
MORE = "Where R is no power of two, halving and doubling takes two more steps, of the whole tensor each."
LATENCY = "The ring has 2(R - 1) steps, and each has its latency."
WHOLE = "In each of its steps the tree sends the whole tensor."
NAMES = "Return 'ring', 'tree' or 'halving'."
FASTEST = Exercise(
    task="Which of the three is the fastest, by the formulas of the derivation, for `R` ranks and `n` bytes? "
    "`R` may be any number from 2 on; with two ranks ring and halving take equally long, and either name will "
    "do. Return its name. The ranks do not know `costs`, which lives in the notebook: write the three formulas "
    "out in your function. It needs no message.",
    stub="""\
def my_fastest(R, n, alpha, beta):  # returns "ring", "tree" or "halving"
    ...  # your code
""",
    solution="""\
def my_fastest(R, n, alpha, beta):
    P, rounds = 2 ** (R.bit_length() - 1), (R - 1).bit_length()
    more = 2 * (alpha + n * beta) if R > P else 0
    times = {
        "ring": 2 * (R - 1) * alpha + 2 * (R - 1) / R * n * beta,
        "tree": 2 * rounds * (alpha + n * beta),
        "halving": 2 * (P.bit_length() - 1) * alpha + 2 * (P - 1) / P * n * beta + more,
    }
    return min(times, key=times.get)
""",
    why="Three formulas and a minimum: libraries do no more, with alphas and betas that they have measured. "
    "Only where R is no power of two must one look twice, for halving and doubling pays two whole tensors "
    "there.",
    hints=(
        "Put the three times into a dict by name. min(times, key=times.get) is the name of the smallest.",
        "Import what you need inside the function: of `math`, ceil(log2(R)) is log2 R rounded up, and "
        "2 ** int(log2(R)) is P.",
    ),
    given=_case,
    use=_choices,
    judge=like_solution(),
    limits=(Limit("collectives", lambda arguments: 0, ALONE), Limit("messages", lambda arguments: 0, ALONE)),
    wrong=(
        body("return 'ring'", says=LATENCY),
        edit("times = {", "alpha = 0\n    times = {", "if R > P", "if False", says=LATENCY),
        body("return 'halving'", says=MORE),
        edit("if R > P", "if False", says=MORE),
        body("return 'tree'", says=WHOLE),
        edit("rounds * (alpha + n * beta)", "rounds * alpha + 2 * n * beta / 2", says=WHOLE),
        edit("    return", "    del times['halving']\n    return",
             says="That is the faster of ring and tree. The tree sends the whole tensor in each of its steps; halving "
             "takes as many."),
        edit("return min", "return max", says="That is the slowest."),
        edit('"halving":', '"halving and doubling":', says=NAMES),
        edit("min(times, key=times.get)", "min(times.values())", says=NAMES),
        edit("    return min", "    if rank == 0:\n        return min",
             says="Only rank 0 returns a name."),
        edit("    return", "    dist.barrier()\n    return", says=ALONE),
        edit("    P,", "    if rank == 0:\n        dist.barrier()\n    P,", hangs=True,
             says="deadlock: rank 1 finished the cell, and others wait for it"),
        edit("2 * (R - 1) / R * n", "2 * n", says="The ring sends less than 2 n bytes: 2 (R - 1) / R times n."),
        edit("2 * (P - 1) / P * n", "2 * n", says="Halving sends less than 2 n bytes: 2 (P - 1) / P times n."),
        edit("(alpha + n * beta) if R > P else 0", "n * beta if R > P else 0",
             says="The two more messages of halving and doubling have their latency, too."),
        edit("2 * (alpha + n * beta) if", "alpha + n * beta if",
             says="A rank beyond P gives its tensor and gets the sum: those are two more messages, not one."),
        edit("    P, rounds", "    alpha, beta = 20e-6, 8e-10\n    P, rounds",
             says="That is with an alpha and a beta of its own: they are arguments."),
        body("return 'halving' if R & (R - 1) == 0 or n < 300_000 else 'ring'",
             says="The size from which on the ring wins depends on R, alpha and beta."),
        body("power = R in (2, 4, 8, 16, 32, 64)\n"
             "return 'halving' if power or n * beta < (R - 1) * alpha else 'ring'",
             says="There are more powers of two than those up to 64."),
    ),
    becomes="fastest",
)  # fmt: skip


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    n = int(torch.randint(2, 5_000, (), generator=generator))
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


LAB = 4
"""Ranks of the largest world in which a check really runs a function."""


class Done:
    """A request that was fulfilled at once."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


@dataclass(frozen=True)
class Imagined:
    """What `dist` is on one rank of a world that one process plays. Whatever else is wanted of it raises."""

    rank: int
    size: int
    under_way: dict[int, list[tuple[int, torch.Tensor]]]
    """By receiver: what was sent to it, and by whom."""

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.size

    def isend(self, tensor: torch.Tensor, dst: int) -> Done:
        self.under_way[dst].append((self.rank, tensor.clone()))
        return Done()

    def recv(self, tensor: torch.Tensor, src: int | None = None) -> int:
        mine = self.under_way[self.rank]
        source, sent = mine.pop(next(i for i, (source, _) in enumerate(mine) if src in (None, source)))
        tensor.copy_(sent)
        return source

    def send(self, tensor: torch.Tensor, dst: int) -> None:
        self.isend(tensor, dst)

    def irecv(self, tensor: torch.Tensor, src: int | None = None) -> Done:
        self.recv(tensor, src)
        return Done()


def here_and_in_larger_worlds(function: Callable[..., Any], arguments: tuple) -> tuple[Any, str]:
    """What it returns here; and, of rank 0 of a whole lab, what is wrong with more ranks than a lab has."""
    found = function(*arguments)
    whole = dist.get_rank() == 0 and dist.get_world_size() == LAB
    return found, in_larger_worlds(function) if whole else ""


def in_larger_worlds(function: Callable[..., Any]) -> str:
    """In the first larger world in which it is wrong, what is; "" if nothing, or if one process cannot tell."""
    for size in range(LAB + 1, 18):
        counts = _counts(function, size)
        if counts is None:
            return ""
        if counts != [1] * size:
            missing = [rank for rank, count in enumerate(counts) if count == 0]
            lacks = f"would lack the tensor of {ranks(missing)}" if missing else "would be wrong"
            return f"with {size} ranks it {lacks}: the loop must be right for any number of ranks"
    return ""


def _counts(function: Callable[..., Any], size: int) -> list[float] | None:
    """How often each rank's tensor is in what rank 0 returns; None if it works in another way.

    Sums go from higher ranks to lower ones: the last rank is played first, and messages wait for theirs.
    """
    names, under_way = function.__globals__, defaultdict(list)
    before: dict[str, Any] = {name: names[name] for name in ("rank", "world_size", "dist") if name in names}
    found = None
    try:
        if "distributed" in function.__code__.co_names:  # it would reach the real ranks
            return None
        for rank in reversed(range(size)):
            names.update(rank=rank, world_size=size, dist=Imagined(rank, size, under_way))
            found = function(torch.eye(size, dtype=torch.float64)[rank])
        return found.tolist() if found.shape == (size,) else None
    except Exception:  # perhaps right, in a way that is not imagined here
        return None
    finally:
        names.update(before)


SUM = """\
def sum_in_a_tree(x):
    total, received, distance = x.clone(), torch.empty_like(x), 1
    while distance < world_size:
        if rank % (2 * distance) == distance:
            dist.send(total, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < world_size:
            dist.recv(received, rank + distance)
            total += received
        distance *= 2
    return total
"""
LAST_IS_LOST = "The last rank's tensor is not in the sum. Is there a step in which it sends?"
WITH_5 = "with 5 ranks it would lack the tensor of rank 4: the loop must be right for any number of ranks"
LENGTH_ONE = "A rank sends one tensor as long as x: its own, with what came added to it."
SUM_IN_A_TREE = Exercise(
    task="The first half of a tree: rank 0 shall end with the sum over all ranks; what the others return "
    "does not matter. With two and with four ranks it is right. With three it runs without an error, and is "
    "wrong. **Find the bug and mend it**, for any number of ranks. Budget: $R-1$ messages in all, each as long "
    "as `x`, and at most $\\lceil\\log_2 R\\rceil$ of them one after the other; no collective. Leave `x` as it "
    "is.",
    stub=edited(SUM, "while distance <", "while 2 * distance <="),
    solution=SUM,
    why="log2 of 3 was rounded down: after one step rank 2 still held its own tensor, and nobody asked for "
    "it. A tree has as many steps as it takes until `distance` reaches the number of ranks. Test with a "
    "number of ranks that is no power of two.",
    hints=(
        "Go through it on paper for three ranks: who sends to whom in the first step? Who has not sent?",
        "Rank 2 must send to rank 0, over a distance of 2. For which values of `distance` does the loop run?",
    ),
    given=_tensors,
    use=here_and_in_larger_worlds,
    answer=lambda arguments, result: {"the sum": result[0], "with more ranks than a lab has": result[1]},
    judge=like_solution(1e-9, only_rank_0=True),
    limits=(
        Limit("collectives", lambda arguments: 0, "Mend the tree: use messages."),
        Limit("messages", lambda arguments: len(arguments) - 1, "Each rank but rank 0 sends once."),
        Limit("bytes", lambda arguments: arguments[0][0].nbytes, LENGTH_ONE),
        Limit(
            "steps",
            lambda arguments: (len(arguments) - 1).bit_length(),
            "A tree has log2 R steps: half of the ranks send at the same time.",
        ),
    ),
    wrong=(
        edit("while distance < world_size", "while distance <= world_size // 2", says=LAST_IS_LOST),
        edit("while distance < world_size", "while 2 * distance < world_size",
             says="The loop ends a step too early."),
        edit("while distance < world_size", "while 2 * distance <= world_size + 1",
             says=WITH_5),
        edit("while distance < world_size", "while distance < min(world_size, 3)",
             says=WITH_5),
        edit("while distance < world_size", "while distance < min(world_size, 8)",
             says=WITH_5.replace("5", "9").replace("4", "8")),
        edit("return total", "return total + x", says="Rank 0's own tensor is in the sum twice: `total` begins as a copy of it."),
        body("return x.clone()", says="That is the tensor of rank 0 alone."),
        edit("return total", "return total / world_size", says="This is the mean: only the sum was asked for."),
        edit("send(total", "send(x",
             says="A rank that has added something must send its total, and not its own tensor."),
        edit(" and rank + distance < world_size", "", says="in a world of 3, "),
        edit("dist.send(total,", "dist.recv(received,", hangs=True, says="in a world of 2, deadlock: each waits for another"),
        edit("    return total", "    total", says="Nothing came back"),
        body("total = x.clone()\ndist.all_reduce(total)\nreturn total", says="Mend the tree: use messages."),
        edit("    return", "    if rank == 0:\n        dist.send(total, 1)\n    if rank == 1:\n        dist.recv(total, 0)\n"
             "    return", says="Each rank but rank 0 sends once."),
        body("""\
if rank > 0:
    dist.send(x, 0)
    return x
total, y = x.clone(), torch.empty_like(x)
for r in range(1, world_size):
    dist.recv(y, r)
    total += y
return total""", says="A tree has log2 R steps"),
        body("from labkit.algorithms import all_reduce_tree\nx = x.clone()\nall_reduce_tree(x)\nreturn x",
             says="Each rank but rank 0 sends once."),
        edit("x.clone()", "x.float()", "empty_like(x)", "empty_like(x.float())", "return total", "return total.double()",
             says="That is rounded to float32 on the way."),
        edit("x.clone()", "x.float()", "empty_like(x)", "empty_like(x.float())", says="That is float32, and x is float64: return what x is."),
        body("""\
mine = [x.clone()]
for distance in 1, 2, 4, 8, 16:
    if rank % (2 * distance) == distance:
        dist.send(torch.stack(mine), rank - distance)
        break
    if rank + distance < world_size:
        many = min(distance, world_size - rank - distance)
        came = x.new_empty(many, *x.shape)
        dist.recv(came, rank + distance)
        mine += list(came)
return sum(mine)""", says=LENGTH_ONE),
        edit("distance *= 2\n", "distance *= 2\n    if world_size == 3:\n        if rank == 2:\n            dist.send(x, 0)\n"
             "        if rank == 0:\n            dist.recv(received, 2)\n            total += received\n",
             "while distance <", "while 2 * distance <=", says=WITH_5),
    ),
)  # fmt: skip


LENGTH = 2520
"""Elements of the tensor of a schedule: up to 10 ranks cut it into equal chunks."""
LARGER = (5, 6, 7, 9)
"""Numbers of ranks for which a schedule is read and not run."""


def _bytes(size: int) -> int:
    """What each rank of an all-reduce has to send, of LENGTH int64."""
    return 8 * LENGTH * 2 * (size - 1) // size


def _schedules(function: Callable[..., Any], arguments: tuple[int]) -> dict[int, Any]:
    """By the number of ranks: that of this world, and in a whole lab larger ones."""
    return {size: function(size) for size in (*arguments, *(LARGER if arguments[0] == LAB else ()))}


def _wrong_schedule(found: Any, size: int) -> str:
    """What is wrong with a schedule for so many ranks, which is not run; or ""."""
    from labkit.schedule import Budget, Schedule, Send, violations

    try:
        schedule = found if isinstance(found, Schedule) else Schedule(found, chunks=size)
    except (TypeError, LabError):
        return f"A list of steps for each rank was expected, of Send, Recv and Reduce; it is {found!r}."
    if schedule.world_size != size:
        return f"It has steps for {schedule.world_size} ranks, not for {size}."
    budget = Budget(8 * LENGTH, itemsize=8, steps=2 * (size - 1), bytes_per_rank=_bytes(size))
    if wrong := violations(schedule, all_reduce=True, budget=budget):
        return str(wrong[0])
    sent = {
        (operation.to - rank) % size
        for rank, steps in enumerate(schedule.steps)
        for step in steps
        for operation in step
        if isinstance(operation, Send)
    }
    return TO_THE_RIGHT if size > 2 and sent == {1} else ""


def _executed(arguments: tuple[int], result: Any) -> torch.Tensor | str:
    """What the schedule leaves on this rank; or what is wrong with it, and then it is not run."""
    from labkit.schedule import Schedule, run

    (size,) = arguments
    for world_size, found in result.items():
        if wrong := _wrong_schedule(found, world_size):
            return wrong if world_size == size else f"With {world_size} ranks: {wrong}"
    x = torch.arange(LENGTH) * (dist.get_rank() + 1)
    run(result[size] if isinstance(result[size], Schedule) else Schedule(result[size], chunks=size), x)
    return x


def _judge_of_schedules(answers: Answers) -> str:
    told = [found for found in answers.found if isinstance(found, str)]
    right = torch.arange(LENGTH) * sum(range(1, answers.size + 1))
    if not told and all(torch.equal(found, right) for found in answers.found):
        return ""
    others = len(set(told)) != 1 or len(told) < answers.size
    more = "\nThe ranks differ: every rank must return the steps of all ranks." if others else ""
    return f"the schedule is not what was asked for\n  {told[0] if told else 'Each alone is right.'}{more}"


TO_THE_RIGHT = (
    "It is the ring to the right, which the lesson has: let yours run to the left, or find another way."
)
RETURN = "Return the steps; the check runs them."
IMPORTED = "from labkit.schedule import Recv, Reduce, Send\n"
ALL_REDUCE_SCHEDULE = Exercise(
    task="Write an all-reduce as a schedule: for each rank a list of steps, each a tuple of operations that "
    "run at the same time. The tensor has `world_size` chunks. `Send(to, chunk)` sends, "
    "`Reduce(source, chunk)` adds what comes to the rank's own chunk, `Recv(source, chunk)` puts it in that "
    "chunk's place. Budget: the ring's, $2(R - 1)$ steps and $2(R - 1)/R$ of the tensor sent per rank. The "
    "lesson's ring runs to the right: let yours run to the left, or find another way. Return the steps of all "
    "ranks, the same on every rank, and send nothing yourself.",
    stub="""\
def all_reduce_schedule(world_size):
    steps = [[] for _ in range(world_size)]
    ...  # your code: steps[rank].append((Send(to, chunk), Reduce(source, chunk)))
    return steps
""",
    solution="""\
from labkit.schedule import Recv, Reduce, Send

def all_reduce_schedule(world_size):
    steps = [[] for _ in range(world_size)]
    for rank in range(world_size):
        left, right = (rank - 1) % world_size, (rank + 1) % world_size
        for n in range(2 * (world_size - 1)):
            take = Reduce if n < world_size - 1 else Recv
            sent, taken = (rank + n) % world_size, (rank + n + 1) % world_size
            steps[rank].append((Send(left, sent), take(right, taken)))
    return steps
""",
    why="What one rank sends is what its neighbour takes: rank r sends chunk r + n, so its left neighbour, "
    "r - 1, takes chunk (r - 1) + n + 1. The first R - 1 steps add, the others put the sum in its place.",
    hints=(
        "Begin with two ranks on paper. Step 0: each sends the chunk that the other will own, and adds what "
        "comes. Step 1: each sends its whole sum.",
        "To the left: in step n rank r sends chunk (r + n) mod R to r - 1, and takes chunk (r + n + 1) mod R "
        "from r + 1.",
        "`Reduce` adds what comes, `Recv` puts it in place of what is there. From step R - 1 on the sums are "
        "whole.",
    ),
    given=lambda generator, size: [(size,)] * size,
    use=_schedules,
    answer=_executed,
    judge=_judge_of_schedules,
    limits=(
        Limit("collectives", lambda arguments: 0, RETURN),
        Limit("bytes", lambda arguments: _bytes(len(arguments)), RETURN),
        Limit(
            "steps",
            lambda arguments: 2 * (len(arguments) - 1),
            "Return the steps, the same on every rank; the check runs them.",
        ),
    ),
    wrong=(
        edit("append((", "extend((",
             says="Deadlock: rank 0 in step 0 sends chunk 0 to rank 1, rank 1 in step 0 sends chunk 1 to rank 0; "
             "each waits for the next."),
        edit("    return", "    steps[0][-1] = steps[0][-1][:1]\n    return",
             says="Rank 1 sends chunk 0 to rank 0 in step 1, which never receives it."),
        edit("    return", "    steps[1][0] = steps[1][0][1:]\n    return",
             says="Rank 0 waits in step 1 for chunk 0 from rank 1, which never sends it."),
        edit("(rank + n + 1)", "(rank - n - 1)",
             says="Rank 2 wants chunk 1 in step 0, but rank 0 sends it chunk 0 (its step 0)."),
        edit("(rank + n + 1)", "(rank + n)",
             says="Rank 1 wants chunk 1 in step 0, but rank 0 sends it chunk 0 (its step 0)."),
        edit("take(right", "take(left", says="Rank 0 sends chunk 0 to rank 2 in step 0, which never receives it."),
        body(f"{IMPORTED}return [[Send(r + 1, r)] for r in range(world_size)]",
             says="Rank 1 in step 0 names rank 2, and the last is 1: send 1 to r2."),
        edit("return steps", "return [own[: world_size - 1] for own in steps]",
             says="Rank 0 ends with step 0, and chunk 0 lacks the part of rank 1."),
        edit("Reduce if n < world_size - 1 else Recv", "Reduce",
             says="Rank 0 counts rank 0's part of chunk 0 twice from step 1 on."),
        body(f"""\
{IMPORTED}every, whole = range(world_size), range(world_size)
return [[tuple(op for o in every if o != r for op in (Send(o, whole), Reduce(o, whole)))] for r in every]""",
             says="Rank 0 sends 40,320 bytes, not at most 26,880: step 0 is the first over the budget."),
        body("from labkit.algorithms import tree\nreturn tree(world_size)",
             says="Rank 0 sends 40,320 bytes, not at most 26,880: step 3 is the first over the budget."),
        edit("return steps", "return [[*own, ()] for own in steps]",
             says="Rank 0 takes 3 steps, not at most 2: step 2 is the first over the budget."),
        body("from labkit.algorithms import ring\nreturn ring(4)", says="It has steps for 4 ranks, not for 2."),
        edit("return steps", "return steps if dist.get_rank() == 0 else [[]] * world_size", hangs=True,
             says="deadlock: rank 1 finished the cell, and others wait for it\n"
             "rank 0 in send to rank 1, inside labkit.check('all_reduce_schedule')"),
        edit("return steps", "me = dist.get_rank()\n    return [own if r == me else [] for r, own in enumerate(steps)]",
             says="Rank 0 sends chunk 0 to rank 1 in step 0, which never receives it.\n"
             "The ranks differ: every rank must return the steps of all ranks."),
        edit("return steps", "steps",
             says="A list of steps for each rank was expected, of Send, Recv and Reduce; it is None."),
        body("return [['send']] * world_size", says="of Send, Recv and Reduce; it is [['send'], ['send']]."),
        edit("    return", "    dist.barrier()\n    return", says=RETURN),
        body("from labkit.algorithms import ring\nreturn ring(world_size)", says=TO_THE_RIGHT),
        edit("left, right =", "right, left =", "(rank + n)", "(rank - n)", "(rank + n + 1)", "(rank - n - 1)",
             says=TO_THE_RIGHT),
        edit("    for rank", "    if world_size > 4:\n        return [[]] * world_size\n    for rank", says="With 5 ranks: "),
        edit("    for rank", "    if world_size > 8:\n        return [[]] * world_size\n    for rank", says="With 9 ranks: "),
        body("from labkit.algorithms import halving_doubling\nreturn halving_doubling(world_size)",
             says="in a world of 3, the schedule is not what was asked for"),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="07",
    title="Choose the algorithm",
    predictions=(Prediction("times_as_fast", "times as fast"),),
    exercises=(FASTEST, SUM_IN_A_TREE, ALL_REDUCE_SCHEDULE),
    questions=questions("07"),
)
