"""What an all_reduce pays for its history, and for recording: without both, with each of them, off and on.

    $ python -m tests.bench trace --ranks 2

All take turns in the same processes. *Without* is a group of its own whose way to MPI is written out with
no code that records (`unrecorded`); *history* is the same, but keeps its last calls; *off* and *on* are the
group of labkit, which keeps them too. A ratio is the median, over the launches, of the ratios within each.
"""

import argparse
import sys
from pathlib import Path
from statistics import median

from tests.bench.launch import launch
from tests.bench.machine import circumstances, deliver, heading
from tests.bench.plan import TracePlan

STATES = ("without", "history", "off", "on")
RATIOS = (("history", "without"), ("off", "without"), ("on", "off"))


def table(document: dict) -> str:
    """Microseconds and ratios of what a JSON file holds."""
    lines = [f"{document['ranks']} ranks, {document['launches']} launches; {heading(document)}"]
    names = "".join(f"{name:>12}" for name in STATES) + "".join(f"{a + '/' + b:>17}" for a, b in RATIOS)
    lines.append(f"{'all_reduce':24}{names}")
    for row in document["rows"]:
        each = "".join(f"{median(row['seconds'][name]) * 1e6:9.1f} us" for name in STATES)
        ratios = "".join(f"{row[f'{a}_over_{b}']:17.3f}" for a, b in RATIOS)
        lines.append(f"{row['bytes']:>8} B {row['mode']:13}{each}{ratios}")
    return "\n".join(lines)


def collect(launches: list[list[dict]]) -> list[dict]:
    """Rows with one number per launch, and the medians of the ratios within each launch."""
    rows = []
    for same in zip(*launches, strict=True):
        seconds = [row["seconds"] for row in same]
        rows.append(
            {
                "bytes": same[0]["bytes"],
                "mode": same[0]["mode"],
                "seconds": {name: [s[name] for s in seconds] for name in STATES},
            }
            | {f"{a}_over_{b}": median(s[a] / s[b] for s in seconds) for a, b in RATIOS}
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench trace", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--launches", type=int, help="3, or 1 with --quick")
    parser.add_argument("--rounds", type=int, default=TracePlan.rounds)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    before, plan = circumstances(), TracePlan(rounds=options.rounds)
    launches = options.launches or (1 if options.quick else 3)
    found = [launch(plan, options.ranks, "tests.bench.recording_worker") for _ in range(launches)]
    measured = before | {"ranks": options.ranks, "launches": launches, "rows": collect(found)}
    deliver(measured, table(measured), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
