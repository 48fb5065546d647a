"""What a step's messages take if one axis of a mesh stays inside the hosts: a heart of lesson 19."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

NAMES = "data", "pipe", "tensor"
Link = tuple[float, float]


def _axes(generator: torch.Generator, size: int) -> Arguments:
    """The same on every rank: three axes, the one inside, and a fast and a slow link."""

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    axes = {name: (between(2, 40), 1000 * between(100, 900)) for name in NAMES}
    inside = NAMES[between(0, len(NAMES))]
    fast = between(5, 20) * 1e-4, between(5, 20) * 1e-8
    slow = between(50, 90) * 1e-4, between(50, 90) * 1e-8
    return [(dict(axes), inside, fast, slow) for _ in range(size)]


def _seconds(
    link: Callable[[str, str, Link, Link], Link],
    messages: bool = True,
    size: bool = True,
    worst: bool = False,
) -> Values:
    def total(arguments: Arguments) -> float:
        axes, inside, fast, slow = arguments[0]
        found = []
        for axis, (count, nbytes) in axes.items():
            alpha, beta = link(axis, inside, fast, slow)
            found.append(messages * count * alpha + size * nbytes * beta)
        return max(found) if worst else sum(found)

    return everywhere(total)


def _right(axis: str, inside: str, fast: Link, slow: Link) -> Link:
    return fast if axis == inside else slow


STEP_SECONDS = Exercise(
    task="`axes` maps the name of an axis to what a rank sends along it in a step, one message after the "
    "other: (messages, bytes). The axis `inside` stays inside the hosts and has the link `fast`; all others "
    "have `slow`. A link is (seconds a message, seconds a byte). Return the seconds of all messages.",
    stub="""\
def my_placement_seconds(axes, inside, fast, slow):
    ...  # your code
""",
    solution="""\
def my_placement_seconds(axes, inside, fast, slow):
    seconds = 0.0
    for axis, (messages, size) in axes.items():
        alpha, beta = fast if axis == inside else slow
        seconds += messages * alpha + size * beta
    return seconds
""",
    why="It is lesson 01's alpha and beta, once for each axis with the link that it has. What belongs inside "
    "is the axis that loses most outside: try each, and take the least.",
    hints=(
        "Each axis costs messages * alpha + bytes * beta. Which alpha and beta does it have?",
        "Go through axes.items(): (alpha, beta) is `fast` for the axis `inside`, else `slow`; add all up.",
    ),
    given=_axes,
    judge=compare(
        _seconds(_right),
        Mistake("These are the bytes alone: each message costs its latency, too.", _seconds(_right, False)),
        Mistake("These are the latencies alone: each byte takes time, too.", _seconds(_right, size=False)),
        Mistake(
            "The axis inside has the slow link here, and the others have the fast one.",
            _seconds(lambda axis, inside, fast, slow: slow if axis == inside else fast),
        ),
        Mistake(
            "All axes have the slow link here: the one inside has the fast one.",
            _seconds(lambda axis, inside, fast, slow: slow),
        ),
        Mistake(
            "The axis inside costs nothing here: its link is fast, not free.",
            _seconds(lambda axis, inside, fast, slow: (0.0, 0.0) if axis == inside else slow),
        ),
        Mistake(
            "That is the slowest axis alone. They are used one after the other: add.",
            _seconds(_right, worst=True),
        ),
        tolerance=1e-9,
    ),
    limits=(Limit("collectives", lambda arguments: 0, "Nobody needs to be asked: all numbers are here."),),
    becomes="placement_seconds",
)
