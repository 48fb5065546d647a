"""What communication costs, when data parallelism pays, and how sure that is: closed forms. Lesson 05.

Times are seconds, sizes bytes, bandwidths bytes per second. R. W. Hockney, "The communication challenge for
MPP", Parallel Computing 20(3), 1994, has alpha + n beta; R. Thakur, R. Rabenseifner and W. Gropp,
International Journal of High Performance Computing Applications 19(1), 2005, the collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, sqrt
from typing import TypeVar

import numpy as np
from scipy.stats import t as student

from labkit.algorithms.ping_pong import fit_alpha_beta

Size = TypeVar("Size", float, np.ndarray)


@dataclass(frozen=True)
class Cost:
    """An all-reduce of n bytes takes latencies * alpha + volume * n * beta, where no link is shared."""

    latencies: float
    volume: float

    def seconds(self, nbytes: Size, alpha: float, beta: float) -> Size:
        """Takes a number of bytes or an array of them."""
        return self.latencies * alpha + self.volume * nbytes * beta

    def bandwidth(self, nbytes: float, alpha: float, seconds: float) -> float:
        """Bytes per second that a link must carry for it to take so long; inf if alpha alone takes longer."""
        left = seconds - self.latencies * alpha
        return self.volume * nbytes / left if left > 0 else inf


# The closed forms of the algorithms of lessons 06 and 07.


def naive_cost(ranks: int) -> Cost:
    """R (R - 1) whole messages, one after another: a bound, for from 4 ranks on some of them overlap."""
    return Cost(ranks * (ranks - 1), ranks * (ranks - 1))


def tree_cost(ranks: int) -> Cost:
    """2 log2 R whole messages, rounded up, one after another."""
    rounds = 2 * (ranks - 1).bit_length()
    return Cost(rounds, rounds)


def ring_cost(ranks: int) -> Cost:
    """2 (R - 1) messages of a part in R each: no algorithm sends less (Patarasuk and Yuan, 2009)."""
    return Cost(2 * (ranks - 1), 2 * (ranks - 1) / ranks)


def halving_doubling_cost(ranks: int) -> Cost:
    """2 log2 P messages for the largest power P of two; two whole messages more where R is none."""
    power = 2 ** (ranks.bit_length() - 1)
    more = 2 * (ranks > power)
    return Cost(2 * (power.bit_length() - 1) + more, 2 * (power - 1) / power + more)


def parameter_server_cost(workers: int, servers: int = 1) -> Cost:
    """A pull and a push of all W workers at once: the servers' links carry W n / S each way, a worker's n.

    No all-reduce, but it takes the place of one. Lesson 08.
    """
    return Cost(2, 2 * max(1.0, workers / servers))


def crossing(one: Cost, other: Cost, alpha: float, beta: float) -> float:
    """Bytes at which both take equally long; inf or below 0 if there is no such size."""
    slopes = (one.volume - other.volume) * beta
    return (other.latencies - one.latencies) * alpha / slopes if slopes else inf


# An epoch: N samples, R ranks that take B each per step, T_comp to compute a step, T_sync to synchronise it.


def epoch_time(samples: int, batch: int, ranks: int, t_comp: float, t_sync: float = 0.0) -> float:
    """(N / (R B)) (T_comp + T_sync); one process is ranks 1 and no T_sync."""
    return samples / (ranks * batch) * (t_comp + t_sync)


def speed_up(ranks: int, t_comp: float, t_sync: float) -> float:
    """Epoch time of one process over that of R ranks: R T_comp / (T_comp + T_sync)."""
    return ranks * efficiency(t_comp, t_sync)


def efficiency(t_comp: float, t_sync: float) -> float:
    """The share of its time that a rank computes, 0 to 1."""
    return t_comp / (t_comp + t_sync)


def pays(ranks: int, t_comp: float, t_sync: float) -> bool:
    """T_sync < (R - 1) T_comp: R ranks take less time for an epoch than one does."""
    return t_sync < (ranks - 1) * t_comp


def break_even_ranks(t_comp: float, t_sync: float) -> float:
    """It pays with more ranks than this, where T_sync does not grow with them."""
    return 1 + t_sync / t_comp


def break_even_batch(ranks: int, t_sample: float, t_sync: float, overhead: float = 0.0) -> float:
    """It pays with more samples per rank than this, where T_comp is overhead + B t_sample; never below 0."""
    return max(0.0, (t_sync / (ranks - 1) - overhead) / t_sample)


def break_even_bandwidth(cost: Cost, nbytes: float, ranks: int, t_comp: float, alpha: float) -> float:
    """It pays on links faster than this, with an all-reduce of that cost; inf if alpha alone is too much."""
    return cost.bandwidth(nbytes, alpha, (ranks - 1) * t_comp)


# What was measured, and what is computed from it, between two bounds.


@dataclass(frozen=True)
class Estimate:
    """A measured number and the bounds of its confidence interval."""

    value: float
    low: float
    high: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __format__(self, spec: str) -> str:
        """
        >>> f"{Estimate(2.0, 1.5, 2.5):.1f}"
        '2.0 (1.5 to 2.5)'
        """
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


def mean(seconds: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Mean of repeated measurements, at least two, with Student's interval."""
    found = np.asarray(seconds, dtype=float)
    half = _quantile(confidence, len(found) - 1) * found.std(ddof=1) / sqrt(len(found))
    return _around(found.mean(), half)


def fit(
    sizes: Sequence[int], seconds: Sequence[float], confidence: float = 0.95
) -> tuple[Estimate, Estimate]:
    """Alpha and beta of ping-pong times, as `fit_alpha_beta` fits them, with bounds; at least 3 sizes."""
    n, t = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    found = np.asarray(fit_alpha_beta(n.tolist(), t.tolist()), dtype=float)
    relative = np.column_stack([1 / t, n / t])
    left = 1 - relative @ found
    degrees = len(t) - 2
    spread = np.sqrt(left @ left / degrees * np.diag(np.linalg.inv(relative.T @ relative)))
    alpha, beta = map(_around, found, _quantile(confidence, degrees) * spread)
    return alpha, beta


def combine(function: Callable[..., float], *estimates: Estimate) -> Estimate:
    """`function` of several estimates, bounded by its values at the corners of their intervals.

    That holds where the function rises or falls in each of them, as all formulas here do.

    >>> f"{combine(lambda a, b: a / b, Estimate(6, 5, 7), Estimate(2, 2, 2)):.1f}"
    '3.0 (2.5 to 3.5)'
    """
    corners = [function(*ends) for ends in product(*((one.low, one.high) for one in estimates))]
    return Estimate(function(*(one.value for one in estimates)), min(corners), max(corners))


def _around(value: float, half: float) -> Estimate:
    return Estimate(float(value), float(value - half), float(value + half))


def _quantile(confidence: float, degrees: int) -> float:
    return float(student.ppf((1 + confidence) / 2, degrees))
