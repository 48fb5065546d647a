"""All benchmarks, one after the other: starts and cells, ranks, collectives, training, recording, simulators.

$ python -m tests.bench --quick --json bench.json
"""

import argparse
import json
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.bench.machine import describe

MODULES = {
    "ready": "startup",
    "ranks": "ranks",
    "collectives": "collectives",
    "trace": "recording",
    "simulate": "simulation",
}
BENCHMARKS = {
    "ready": "starting ranks, and an empty cell, against plain ipyparallel",
    "ranks": "more and more ranks on one machine",
    "collectives": "collectives against gloo and raw MPI, and a training step against DDP on gloo",
    "trace": "what recording costs an all_reduce",
    "simulate": "the simulators",
}


def tables(document: dict) -> dict[str, str]:
    """The table of each benchmark that the JSON file holds, by what it measures."""
    return {
        what: _module(name).table(document[name]) for name, what in BENCHMARKS.items() if name in document
    }


def main(arguments: list[str]) -> int:
    """The benchmark that is named, or all; each prints a table of ratios of medians."""
    if arguments and arguments[0] in BENCHMARKS:
        return _module(arguments[0]).main(arguments[1:])
    return run_all(arguments)


def run_all(arguments: list[str]) -> int:
    """Run all, each with its usual settings, and print each table when it is measured."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__.splitlines()[0],
        epilog=f"One of them, with its own settings: python -m tests.bench {' | '.join(BENCHMARKS)} [--help]",
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    found = {"machine": describe()}
    with tempfile.TemporaryDirectory() as folder:
        for name, what in BENCHMARKS.items():
            print(f"\n{what[0].upper()}{what[1:]}\n", flush=True)
            file = Path(folder, name)
            settings = ["--json", str(file), *(["--quick"] if options.quick else [])]
            _module(name).main(settings)
            found[name] = json.loads(file.read_text())
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _module(name: str) -> ModuleType:
    return import_module(f"tests.bench.{MODULES[name]}")
