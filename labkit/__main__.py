"""The command: labkit lab | export | run | doctor | bench | stop."""

import argparse
import shutil
import sys

from labkit import processes
from labkit.errors import LabError


def main(argv: list[str] | None = None) -> int:
    """Run one of the commands; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="labkit", description="A teaching lab for distributed deep learning."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lab", help="open JupyterLab; its notebooks share one warm lab", add_help=False)
    commands.add_parser("stop", help="end every lab of yours on this machine, also what a crash left")
    commands.add_parser("bench", help="measure against the peers", add_help=False)
    commands.add_parser("export", help="a lesson's cells as a plain script", add_help=False)
    commands.add_parser("run", help="run a script where a lab's ranks would run", add_help=False)
    commands.add_parser("doctor", help="what is wrong with this machine or these hosts", add_help=False)
    args, rest = parser.parse_known_args(argv)
    own = {"lab": lab, "stop": stop, "bench": bench}
    try:
        return own[args.command](rest) if args.command in own else _module(args.command).main(rest)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1


def _module(command: str):
    from importlib import import_module

    return import_module(f"labkit.{command}")


def lab(arguments: list[str]) -> int:
    """JupyterLab on the lessons of this folder, which it puts there if it is empty."""
    from labkit.jupyterlab import open_lab

    return open_lab(arguments)


def stop(arguments: list[str]) -> int:
    """End what carries labkit's mark and is ours, by pid and start time."""
    from labkit import slurm
    from labkit.engines import RUNTIME

    for marker in RUNTIME.glob(f"*/{slurm.MARKER}"):
        slurm.cancel(marker.parent.name)
    found = processes.of_any_lab()
    processes.end(found)
    for folder in RUNTIME.glob("*"):
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(found)} processes ended" if found else "no lab is running")
    return 0


def bench(arguments: list[str]) -> int:
    """All benchmarks, or the one that is named; each prints a table of ratios of medians."""
    from labkit.bench.whole import BENCHMARKS

    if arguments and arguments[0] in BENCHMARKS:
        return _module(f"bench.{arguments[0]}").main(arguments[1:])
    return _module("bench.whole").main(arguments)


if __name__ == "__main__":
    sys.exit(main())
