"""What recording costs an all_reduce: without its code, with recording off, and on.

    $ labkit bench trace --ranks 2

All three take turns in the same processes. *Without* runs the same functions with every `if` that asks
about recording cut out of their source. A ratio is the median, over the launches, of the ratios within each.
"""

import argparse
import sys
from statistics import median

from labkit.bench.machine import busy, describe, one_line
from labkit.bench.plan import TracePlan
from labkit.bench.start import launch


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="labkit bench trace", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=TracePlan.rounds)
    options = parser.parse_args(argv)
    print(f"{options.ranks} ranks, {options.launches} launches; {one_line(describe())}")
    if before := busy():
        print(f"runnable processes per core before the start: {before:.1f}", flush=True)
    plan = TracePlan(rounds=options.rounds)
    found = [launch(plan, options.ranks, "labkit.bench.trace_rank") for _ in range(options.launches)]
    print(f"{'all_reduce':24}{'without':>12}{'off':>12}{'on':>12}{'off/without':>13}{'on/off':>8}")
    for rows in zip(*found, strict=True):
        seconds = [row["seconds"] for row in rows]
        each = "".join(
            f"{median(s[name] for s in seconds) * 1e6:9.1f} us" for name in ("without", "off", "on")
        )
        off = median(s["off"] / s["without"] for s in seconds)
        on = median(s["on"] / s["off"] for s in seconds)
        print(f"{rows[0]['bytes']:>8} B {rows[0]['mode']:13}{each}{off:13.3f}{on:8.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
