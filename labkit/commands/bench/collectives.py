"""Latency and bandwidth of every collective: backend mpi against gloo and raw blocking mpi4py.

    $ labkit bench collectives --ranks 2 --json times.json --figure times.png

Each launch measures all contenders in turn in the same processes. A ratio is the median, over the launches,
of the ratios within each launch. Times are seconds per call on the slowest rank.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from labkit.commands.bench import report
from labkit.commands.bench.launch import launch
from labkit.commands.bench.machine import circumstances, deliver, heading
from labkit.commands.bench.plan import plan
from labkit.commands.bench.report import Row, collect


def document(rows: list[Row], ranks: int, launches: int, settings: dict, before: dict) -> dict:
    """What the JSON file holds; `before` is what `circumstances` found."""
    return before | {
        "ranks": ranks,
        "launches": launches,
        "settings": settings,
        "units": {
            "seconds": "per call on the slowest rank, one number per launch",
            "bytes": "of the whole tensor",
        },
        "rows": [row.as_json() for row in rows],
    }


def table(document: dict) -> str:
    """Seconds and ratios of what a JSON file holds."""
    rows = [Row(row["verb"], row["bytes"], row["seconds"]) for row in document["rows"]]
    ranks, cores = document["ranks"], document["machine"]["cores"]
    lines = [f"{ranks} ranks, {document['launches']} launches; {heading(document)}"]
    if ranks > cores:
        lines.append(f"{ranks} ranks share {cores} cores: who gives the core away is faster")
    return "\n".join([*lines, report.table(rows)])


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="labkit bench collectives", description=__doc__.splitlines()[0])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--launches", type=int, help="interleaved launches; 5, or 1 with --quick")
    p.add_argument("--quick", action="store_true", help="fewer sizes, rounds and launches")
    p.add_argument("--verbs", help="only these, separated by commas")
    p.add_argument("--json", type=Path, metavar="FILE")
    p.add_argument("--figure", type=Path, metavar="FILE")
    return p


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    options = parser().parse_args(argv)
    launches = options.launches or (1 if options.quick else 5)
    wanted = plan(options.quick, options.verbs.split(",") if options.verbs else None)
    before, found = circumstances(), []
    for i in range(launches):
        found.append(launch(wanted, options.ranks))
        print(f"launch {i + 1} of {launches} done", file=sys.stderr, flush=True)
    rows = collect(found)
    measured = document(rows, options.ranks, launches, asdict(wanted), before)
    deliver(measured, table(measured), options.json)
    if options.figure:
        from labkit.commands.bench.figure import draw

        draw(rows, options.ranks, options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
