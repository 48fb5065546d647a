"""The command: labkit lab | stop | bench."""

import argparse
import shutil
import sys

from labkit import processes

BENCHMARKS = ("collectives", "ready", "simulate", "trace")


def main(argv: list[str] | None = None) -> int:
    """Run one of the commands; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="labkit", description="A teaching lab for distributed deep learning."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lab", help="open JupyterLab; its notebooks share one warm lab", add_help=False)
    commands.add_parser("stop", help="end every lab of yours on this machine, also what a crash left")
    commands.add_parser("bench", help="measure against the peers", add_help=False)
    args, rest = parser.parse_known_args(argv)
    return {"lab": lab, "stop": stop, "bench": bench}[args.command](rest)


def lab(arguments: list[str]) -> int:
    """JupyterLab on the lessons of this folder, which it puts there if it is empty."""
    from labkit.jupyterlab import open_lab

    return open_lab(arguments)


def stop(arguments: list[str]) -> int:
    """End what carries labkit's mark and is ours, by pid and start time."""
    from labkit.engines import RUNTIME

    found = processes.of_any_lab()
    processes.end(found)
    for folder in RUNTIME.glob("*"):
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(found)} processes ended" if found else "no lab is running")
    return 0


def bench(arguments: list[str]) -> int:
    """Named benchmarks; each prints a table of ratios of medians."""
    from importlib import import_module

    if not arguments or arguments[0] not in BENCHMARKS:
        print(f"labkit bench {' | '.join(BENCHMARKS)} [--help]", file=sys.stderr)
        return 2
    return import_module(f"labkit.bench.{arguments[0]}").main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
