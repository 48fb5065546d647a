"""Latency and bandwidth of every collective: backend mpi against gloo and raw blocking mpi4py.

    $ python -m tests.bench collectives --ranks 2 --json times.json --figure times.png
    $ python -m tests.bench collectives --hosts a:2,b:2

Each launch measures all contenders in turn in the same processes. A ratio is the median, over the launches,
of the ratios within each launch. Times are seconds per call on the slowest rank. On several hosts the last
rows compare an all_reduce with a flat ring of messages.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from labkit.launch.hosts.names import parse
from tests.bench import report
from tests.bench.launch import launch
from tests.bench.machine import circumstances, deliver, heading
from tests.bench.plan import plan
from tests.bench.report import Row, collect


def document(
    rows: list[Row], ranks: int, launches: int, settings: dict, before: dict, hosts: int = 1
) -> dict:
    """What the JSON file holds; `before` is what `circumstances` found."""
    return before | {
        "ranks": ranks,
        "hosts": hosts,
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
    hosts = document.get("hosts", 1)
    on = f" on {hosts} hosts" if hosts > 1 else ""
    lines = [f"{ranks} ranks{on}, {document['launches']} launches; {heading(document)}"]
    if hosts == 1 and ranks > cores:
        lines.append(f"{ranks} ranks share {cores} cores: who gives the core away is faster")
    return "\n".join([*lines, report.table(rows)])


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m tests.bench collectives", description=__doc__.splitlines()[0])
    p.add_argument("--ranks", type=int, help="2, or one per slot of the hosts")
    p.add_argument("--hosts", help="as in LABKIT_HOSTS: a:2,b:2")
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
    hosts = parse(options.hosts or "")
    ranks = options.ranks or sum(host.slots for host in hosts) or 2
    wanted = plan(options.quick, options.verbs.split(",") if options.verbs else None, bool(hosts))
    before, found = circumstances(), []
    for i in range(launches):
        found.append(launch(wanted, ranks, hosts=options.hosts))
        print(f"launch {i + 1} of {launches} done", file=sys.stderr, flush=True)
    rows = collect(found)
    measured = document(rows, ranks, launches, asdict(wanted), before, len(hosts) or 1)
    deliver(measured, table(measured), options.json)
    if options.figure:
        from tests.bench.figure import draw

        draw(rows, ranks, options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
