"""Seconds that the simulator takes, and for how many messages.

    $ python -m tests.bench simulate --rounds 5

Each round runs all in turn; the numbers are medians over the rounds. The last two rows are one schedule in
both simulators, and their ratio is the median of the ratios within each round.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from labkit.algorithms import ring, ring_rounds, tree_rounds
from labkit.simulate import ETHERNET_10G, INFINIBAND_HDR, finish_times, ring_finish_times, simulate
from tests.bench.machine import circumstances, deliver, heading

NBYTES = 100_000_000


@dataclass(frozen=True)
class Case:
    """One simulation; at most `limit` seconds are promised on two cores."""

    title: str
    messages: int
    run: Callable[[], object]
    limit: float | None = None


def in_a_ring(ranks: int) -> int:
    """The messages of an all-reduce."""
    return 2 * (ranks - 1) * ranks


def cases() -> tuple[Case, ...]:
    """All-reduces of 100 MB; what is timed includes making the schedule."""
    half = replace(ETHERNET_10G, switch=128 * ETHERNET_10G.bandwidth)
    more = replace(ETHERNET_10G, switch=512 * ETHERNET_10G.bandwidth)
    hosts = replace(ETHERNET_10G, ranks_per_nic=8)
    return (
        Case(
            "4,096 ranks, nothing shared",
            in_a_ring(4096),
            lambda: finish_times(ring_rounds(4096), INFINIBAND_HDR, NBYTES),
            2,
        ),
        Case("256 ranks, a shared switch", in_a_ring(256), lambda: simulate(ring(256), half, NBYTES), 10),
        Case("256 ranks, 8 per network link", in_a_ring(256), lambda: simulate(ring(256), hosts, NBYTES), 10),
        Case(
            "1,024 ranks, a shared switch",
            in_a_ring(1024),
            lambda: finish_times(ring_rounds(1024), more, NBYTES),
            20,
        ),
        Case(
            "1,024 ranks, 8 per link",
            in_a_ring(1024),
            lambda: finish_times(ring_rounds(1024), hosts, NBYTES),
            20,
        ),
        Case(
            "65,536 ranks, a ring",
            in_a_ring(2**16),
            lambda: ring_finish_times(2**16, INFINIBAND_HDR, NBYTES),
            5,
        ),
        Case(
            "65,536 ranks, a tree instead",
            2 * (2**16 - 1),
            lambda: finish_times(tree_rounds(2**16), INFINIBAND_HDR, NBYTES),
            5,
        ),
        Case("64 ranks, SimPy", in_a_ring(64), lambda: simulate(ring(64), ETHERNET_10G, NBYTES)),
        Case(
            "64 ranks, recurrence", in_a_ring(64), lambda: finish_times(ring_rounds(64), ETHERNET_10G, NBYTES)
        ),
    )


def measure(case: Case) -> float:
    begin = time.perf_counter()
    case.run()
    return time.perf_counter() - begin


def table(document: dict) -> str:
    """Seconds of what a JSON file holds."""
    lines = [f"Ring all-reduce of {NBYTES // 10**6} MB, {document['rounds']} rounds; {heading(document)}"]
    lines.append(f"{'':32}{'messages':>12}{'seconds':>9}{'limit':>7}{'messages/s':>13}")
    for row in document["rows"]:
        took, limit = median(row["seconds"]), f"{row['limit']:7.0f}" if row["limit"] else " " * 7
        lines.append(
            f"{row['title']:32}{row['messages']:12,}{took:9.3f}{limit}{row['messages'] / took:13,.0f}"
        )
    lines.append(
        f"The recurrence is {document['recurrence_speedup']:.0f} times as fast as SimPy on the same schedule."
    )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench simulate", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    before, cases_ = circumstances(), cases()
    rounds = [
        [measure(case) for case in cases_] for _ in range(options.rounds or (1 if options.quick else 3))
    ]
    rows = [
        {"title": case.title, "messages": case.messages, "limit": case.limit, "seconds": list(times)}
        for case, *times in zip(cases_, *rounds, strict=True)
    ]
    ratio = median(times[-2] / times[-1] for times in rounds)
    measured = before | {"rounds": len(rounds), "recurrence_speedup": ratio, "rows": rows}
    deliver(measured, table(measured), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
