"""What is left of a year in which ranks die: a heart of lesson 22."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, close, compare, everywhere
from labkit.exercises.lazy_torch import torch

Saved = Callable[["torch.Tensor", float, float, float], "torch.Tensor"]
"""From gaps, interval, save and restart to the hours of work that are saved in each gap."""


def _given(generator: torch.Generator, size: int) -> Arguments:
    """Years in which every mistake in counting rounds gives another number of them."""
    while True:
        given = _years(generator, size)
        ways = [_saved, _without_restart, _below_zero, _saves_take_no_time]
        hours = [sum(float(saved(*mine).sum()) for mine in given) for saved in ways]
        if not any(close(one, other, tolerance=1e-3) for one, other in combinations(hours, 2)):
            return given


def _years(generator: torch.Generator, size: int) -> Arguments:
    """Each rank's own failures, as many hours apart; one comes before the restart is over."""
    interval, save, restart = (torch.rand(3, generator=generator, dtype=torch.float64) + 1).tolist()
    given = []
    for rank in range(size):
        gaps = 30 * torch.rand(5 + 2 * rank, generator=generator, dtype=torch.float64) + 1
        given.append((torch.cat([gaps, gaps.new_tensor([restart / 4])]), interval, save / 5, restart))
    return given


def _rounds(gaps: torch.Tensor, interval: float, save: float, restart: float) -> torch.Tensor:
    return ((gaps - restart).clamp(min=0) / (interval + save)).floor()


def _saved(gaps: torch.Tensor, interval: float, save: float, restart: float) -> torch.Tensor:
    return _rounds(gaps, interval, save, restart) * interval


def _without_restart(gaps: torch.Tensor, interval: float, save: float, restart: float) -> torch.Tensor:
    return _saved(gaps, interval, save, 0)


def _below_zero(gaps: torch.Tensor, interval: float, save: float, restart: float) -> torch.Tensor:
    return ((gaps - restart) / (interval + save)).floor() * interval


def _saves_take_no_time(gaps: torch.Tensor, interval: float, save: float, restart: float) -> torch.Tensor:
    return _saved(gaps, interval, 0, restart)


def _share(saved: Saved) -> Values:
    """The same share on all ranks, of all their years together."""

    def of(arguments: Arguments) -> float:
        hours = sum(float(saved(*mine).sum()) for mine in arguments)
        return hours / sum(float(gaps.sum()) for gaps, *_ in arguments)

    return everywhere(of)


def _own(arguments: Arguments) -> list[float]:
    return [float(_saved(*mine).sum() / mine[0].sum()) for mine in arguments]


USEFUL_SHARE = Exercise(
    task="`gaps` has the hours between a failure and the next, in a year of this rank's own. After a failure "
    "`restart` hours go by. Then `interval` hours of work and a save of `save` hours take turns, until the "
    "next failure. Only work behind which a save is complete is kept; of a gap that ends before that, "
    "nothing. Return which share of all hours of all ranks' years is such work, with one collective call.",
    stub="""\
def my_useful_share(gaps, interval, save, restart):
    ...  # your code
""",
    solution="""\
def my_useful_share(gaps, interval, save, restart):
    rounds = ((gaps - restart).clamp(min=0) / (interval + save)).floor()
    hours = torch.stack([rounds.sum() * interval, gaps.sum()])
    dist.all_reduce(hours)
    return (hours[0] / hours[1]).item()
""",
    why="A gap holds so many whole rounds of work and save. What is left over at its end is the work that is "
    "lost, in the mean half a round. Sums of hours may be added over ranks; shares may not, since years of "
    "different length would count alike.",
    hints=(
        "How many whole rounds of `interval + save` fit into a gap, after `restart`? Never below 0.",
        "Stack the saved hours and all hours into one tensor, all_reduce that, and divide.",
    ),
    given=_given,
    judge=compare(
        _share(_saved),
        Mistake("These are each rank's own years: add up those of all.", _own),
        Mistake(
            "The mean of the ranks' shares counts a short year like a long one: add hours, then divide.",
            everywhere(lambda arguments: sum(_own(arguments)) / len(arguments)),
        ),
        Mistake(
            "This is the sum of the ranks' shares: add hours, then divide.",
            everywhere(lambda arguments: sum(_own(arguments))),
        ),
        Mistake(
            "Work without a complete save behind it is lost: count whole rounds only.",
            _share(lambda gaps, i, s, r: (gaps - r).clamp(min=0) / (i + s) * i),
        ),
        Mistake(
            "After each failure `restart` hours go by before work begins.",
            _share(_without_restart),
        ),
        Mistake(
            "A gap shorter than `restart` has no work, not less than none.",
            _share(_below_zero),
        ),
        Mistake(
            "A round is `interval + save` hours long: while a save goes on, no work is done.",
            _share(_saves_take_no_time),
        ),
        Mistake(
            "The hours of saves are no work: only `interval` of each round is.",
            _share(lambda gaps, i, s, r: _rounds(gaps, i, s, r) * (i + s)),
        ),
        Mistake(
            "This is the share that is lost.",
            lambda arguments: [1 - share for share in _share(_saved)(arguments)],
        ),
        Mistake(
            "These are hours. Divide them by all hours of all ranks' years.",
            everywhere(lambda arguments: sum(float(_saved(*mine).sum()) for mine in arguments)),
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "Both sums fit into one tensor."),),
    becomes="useful_share",
)
