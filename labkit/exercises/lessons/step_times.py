"""How long a step takes with replicas that agree in four ways: the heart of lesson 25."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

WAYS = "asynchronous", "synchronous", "server", "local steps"


def _given(generator: torch.Generator, size: int) -> Arguments:
    """Each rank is asked for another way. Among two ranks the server's link is full, among four it is not."""
    R = int(torch.randint(5, 20, (), generator=generator))
    t, alpha = (1 + torch.rand(2, generator=generator, dtype=torch.float64)).tolist()
    full = {2: 3.0, 3: 3.0, 4: 0.2}[size]
    n = 4 * int(torch.randint(10_000, 90_000, (), generator=generator))
    beta = full * (t / (R - 1) + 0.002 * alpha) / ((R - 3) * n)
    return [(way, R, t, n, 1e-3 * alpha, beta) for way in WAYS[:size]]


def _seconds(
    workers: Callable[[int], int] = lambda R: R - 1,
    halves: float = 2,
    chunk: Callable[[int], float] = lambda R: 1 / R,
    every: float = 4,
    full: bool = True,
    gradients: Callable[[int], int] = lambda R: R - 1,
    computing: float = 1,
) -> Values:
    """The lesson's seconds, with these parts of the formulas."""

    def of(way: str, R: int, t: float, n: int, alpha: float, beta: float) -> float:
        ring = halves * (R - 1) * (alpha + chunk(R) * n * beta)
        if way in ("synchronous", "local steps"):
            return computing * t / R + (ring / every if way == "local steps" else ring)
        t = computing * t / workers(R)
        if way == "server":
            return t + 2 * alpha + 2 * gradients(R) * n * beta
        alone = t + 2 * alpha + 2 * n * beta
        return max(alone, (R - 1) * n * beta) if full else alone

    return lambda arguments: [of(*mine) for mine in arguments]


STEP_TIME = Exercise(
    task='Return the seconds of a step for `way`, which is "synchronous", "server", "asynchronous" or "local '
    "steps\" (once in 4 steps). Take the numbers of the table. The server's link is full with $R - 1$ "
    "gradients of $n$ bytes: an asynchronous step takes no less than those.",
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
    given=_given,
    judge=compare(
        _seconds(),
        Mistake("Rank 0 computes nothing there: R - 1 workers share t.", _seconds(workers=lambda R: R)),
        Mistake("A ring has two halves, of R - 1 messages each.", _seconds(halves=1)),
        Mistake(
            "These are rings of whole tensors. A message of the ring has n / R bytes.",
            _seconds(chunk=lambda R: 1),
        ),
        Mistake("Local steps talk once in 4 steps.", _seconds(every=1)),
        Mistake(
            "With many workers the server's link is full: no less than (R - 1) n beta.", _seconds(full=False)
        ),
        Mistake(
            "The server's link carries what all R - 1 workers get and send.", _seconds(gradients=lambda R: 1)
        ),
        Mistake("The computing is missing.", _seconds(computing=0)),
        tolerance=1e-6,
    ),
    limits=(Limit("collectives", lambda arguments: 0, "Each rank can compute that alone."),),
    becomes="step_time",
)
