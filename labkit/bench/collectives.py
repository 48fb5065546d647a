"""Latency and bandwidth of every collective: backend mpi against gloo and raw blocking mpi4py.

    $ labkit bench collectives --ranks 2 --json times.json --figure times.png

Each launch measures all contenders in turn in the same processes. A ratio is the median, over the launches,
of the ratios within each launch. Times are seconds per call on the slowest rank.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from labkit.bench.machine import busy, describe, one_line
from labkit.bench.plan import plan
from labkit.bench.report import Row, collect, table
from labkit.bench.start import launch

#: Above this many runnable processes per core before the start, the numbers say more of the others.
QUIET = 0.5


def document(rows: list[Row], ranks: int, launches: int, settings: dict, before: float | None = None) -> dict:
    """What the JSON file holds."""
    return {
        "machine": describe(),
        "busy_before": before,
        "ranks": ranks,
        "launches": launches,
        "settings": settings,
        "units": {
            "seconds": "per call on the slowest rank, one number per launch",
            "bytes": "of the whole tensor",
        },
        "rows": [row.as_json() for row in rows],
    }


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="labkit bench collectives", description=__doc__.splitlines()[0])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--launches", type=int, help="interleaved launches; 5, or 3 with --quick")
    p.add_argument("--quick", action="store_true", help="fewer sizes, rounds and launches")
    p.add_argument("--verbs", help="only these, separated by commas")
    p.add_argument("--json", type=Path, metavar="FILE")
    p.add_argument("--figure", type=Path, metavar="FILE")
    return p


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    launches = options.launches or (3 if options.quick else 5)
    wanted = plan(options.quick, options.verbs.split(",") if options.verbs else None)
    machine = describe()
    print(f"{options.ranks} ranks, {launches} launches; {one_line(machine)}", flush=True)
    if options.ranks > machine["cores"]:
        print(f"{options.ranks} ranks share {machine['cores']} cores: who gives the core away is faster")
    before = busy()
    if before is not None and before > QUIET:
        print(f"other programs are busy here ({before:.1f} per core): measure again on a quiet machine")
    found = []
    for i in range(launches):
        found.append(launch(wanted, options.ranks))
        print(f"launch {i + 1} of {launches} done", file=sys.stderr, flush=True)
    rows = collect(found)
    print(table(rows))
    if options.json:
        text = json.dumps(document(rows, options.ranks, launches, asdict(wanted), before), indent=1)
        options.json.write_text(text + "\n")
    if options.figure:
        from labkit.bench.figure import draw

        draw(rows, options.ranks, options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
