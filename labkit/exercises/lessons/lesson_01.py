"""Send a tensor from one rank to another."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, Values, questions
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.first_bugs import SHIFT_RIGHT


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    """Of another shape and type in each world, and large, so that a send waits for its receiver."""
    n = 20_000 + int(torch.randint(1, 2000, (), generator=generator))
    shape, dtype = ((n,), torch.float64) if size == 2 else ((2, n), torch.int64)
    return [(torch.randint(1, 10**6, shape, generator=generator).to(dtype),) for _ in range(size)]


def _from(source: Callable[[int, int], int]) -> Values:
    """What every rank has that holds the tensor of rank source(rank, size)."""
    return lambda arguments: [arguments[source(r, len(arguments))][0] for r in range(len(arguments))]


SWAP = Exercise(
    task="Ranks 0 and 1 swap their tensors, and so do ranks 2 and 3. Return what the partner had. No "
    "deadlock, whatever the size of the tensor, and one message from each rank.",
    stub="""\
def swap(mine):  # of one shape and one dtype on all ranks
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    ...  # your code
""",
    solution="""\
def swap(mine):
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    theirs = torch.empty_like(mine)
    request = dist.isend(mine, dst=partner)
    dist.recv(theirs, src=partner)
    request.wait()
    return theirs
""",
    why="Both partners run the same lines, without a branch: the send does not block, so both reach recv.",
    hints=(
        "Allocate first. Then: both partners run the same lines. Which way out needs no `if`?",
        "isend, recv, wait, each to or from `partner`.",
    ),
    given=_tensors,
    judge=compare(
        _from(lambda rank, size: rank ^ 1),
        Mistake("That is the rank's own tensor: what was received is in another one.", _from(lambda r, n: r)),
        Mistake("That is the left neighbour's: go by `partner`.", _from(lambda r, n: (r - 1) % n)),
        Mistake("That is the right neighbour's: go by `partner`.", _from(lambda r, n: (r + 1) % n)),
        Mistake("Nothing has arrived in it: which call fills the tensor that you return?",
                lambda a: [0 * x for (x,) in a]),
    ),
    limits=(
        Limit("messages", len, "A partner needs one message from each side, and nobody else needs any."),
        Limit("collectives", lambda a: 0, "A collective moves every tensor to every rank: send and recv."),
    ),
    sizes=(2, 4),
)  # fmt: skip


def _links(generator: torch.Generator, size: int) -> Arguments:
    share, a, b = torch.rand(3, dtype=torch.float64, generator=generator).tolist()
    return [(0.6 + 0.38 * share, 1e-6 * 10 ** (2 * a), 1e-10 * 10 ** (2 * b))] * size


def _size(formula: Callable[[float, float, float], float]) -> Values:
    return lambda arguments: [formula(*given) for given in arguments]


MESSAGE_SIZE = Exercise(
    task="A message of $n$ bytes moves at $n/T(n)$ bytes per second. How large must it be to reach a given "
    "share of the bandwidth $1/\\beta$? Return $n$.",
    stub="""\
def message_size(share, alpha, beta):  # share: 0.9 for 90 %
    ...  # your code
""",
    solution="""\
def message_size(share, alpha, beta):
    return share / (1 - share) * alpha / beta
""",
    why="n / T(n) = share / beta, so n beta = share (alpha + n beta): nine alpha / beta for 90 %.",
    hints=(
        "T(n) = alpha + n beta. Set n / T(n) to share / beta.",
        "Multiply both sides by what stands below, and solve for n.",
    ),
    given=_links,
    judge=compare(
        _size(lambda share, alpha, beta: share / (1 - share) * alpha / beta),
        Mistake("That is right for 90 % alone: `share` says how much.", _size(lambda s, a, b: 9 * a / b)),
        Mistake("That is the size at which both parts are equal: half of the bandwidth.",
                _size(lambda s, a, b: a / b)),
        Mistake("Upside down: a higher latency needs a larger message.",
                _size(lambda s, a, b: s / (1 - s) * b / a)),
        Mistake("n stands on both sides: T(n) grows with n, too.", _size(lambda s, a, b: s * a / b)),
    ),
    limits=(
        Limit("messages", lambda a: 0, "Every rank knows all three numbers: a formula needs no message."),
        Limit("collectives", lambda a: 0, "Every rank knows all three numbers: a formula needs no message."),
    ),
    sizes=(4,),
)  # fmt: skip

LESSON = Lesson(
    "01",
    "Send a tensor from one rank to another",
    predictions=(Prediction("million", "times as long"),),
    exercises=(SHIFT_RIGHT, SWAP, MESSAGE_SIZE),
    questions=questions("01"),
)
