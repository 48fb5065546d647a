"""Seconds that the simulator takes, and for how many messages.

    $ labkit bench simulate --rounds 5

Each round runs all in turn; the numbers are medians over the rounds. The last two rows are one schedule in
both simulators, and their ratio is the median of the ratios within each round.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from labkit.algorithms import ring, ring_rounds
from labkit.bench.machine import busy, describe, one_line
from labkit.simulate import ETHERNET_10G, INFINIBAND_HDR, finish_times, simulate

NBYTES = 100_000_000


@dataclass(frozen=True)
class Case:
    """One simulation; at most `limit` seconds are promised on two cores."""

    title: str
    ranks: int
    run: Callable[[], object]
    limit: float | None = None

    @property
    def messages(self) -> int:
        return 2 * (self.ranks - 1) * self.ranks


def cases() -> tuple[Case, ...]:
    """Ring all-reduces of 100 MB; what is timed includes making the schedule."""
    half = replace(ETHERNET_10G, switch=128 * ETHERNET_10G.bandwidth)
    hosts = replace(ETHERNET_10G, ranks_per_nic=8)
    return (
        Case(
            "4,096 ranks, nothing shared",
            4096,
            lambda: finish_times(ring_rounds(4096), INFINIBAND_HDR, NBYTES),
            2,
        ),
        Case("256 ranks, a shared switch", 256, lambda: simulate(ring(256), half, NBYTES), 10),
        Case("256 ranks, 8 per network link", 256, lambda: simulate(ring(256), hosts, NBYTES), 10),
        Case("64 ranks, SimPy", 64, lambda: simulate(ring(64), ETHERNET_10G, NBYTES)),
        Case("64 ranks, recurrence", 64, lambda: finish_times(ring_rounds(64), ETHERNET_10G, NBYTES)),
    )


def measure(case: Case) -> float:
    begin = time.perf_counter()
    case.run()
    return time.perf_counter() - begin


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="labkit bench simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    before, measured = busy(), cases()
    rounds = [[measure(case) for case in measured] for _ in range(options.rounds)]
    seconds = [median(times) for times in zip(*rounds, strict=True)]
    print(f"Ring all-reduce of {NBYTES // 10**6} MB, {options.rounds} rounds; {one_line(describe())}")
    print(f"{'':32}{'messages':>12}{'seconds':>9}{'limit':>7}{'messages/s':>13}")
    for case, took in zip(measured, seconds, strict=True):
        limit = f"{case.limit:7.0f}" if case.limit else " " * 7
        print(f"{case.title:32}{case.messages:12,}{took:9.3f}{limit}{case.messages / took:13,.0f}")
    ratio = median(times[-2] / times[-1] for times in rounds)
    print(f"The recurrence is {ratio:.0f} times as fast as SimPy on the same schedule.")
    if options.json:
        rows = [
            {"title": case.title, "messages": case.messages, "limit": case.limit, "seconds": list(times)}
            for case, *times in zip(measured, *rounds, strict=True)
        ]
        found = {"machine": describe(), "busy_before": before, "recurrence_speedup": ratio, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1))
    return 0
