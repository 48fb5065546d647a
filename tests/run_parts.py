"""Run the parts of the test suite, each within its budget of minutes.

python tests/run_parts.py test        what any machine can run
python tests/run_parts.py test-all    what comes on top: takes longer, or needs more than a bare machine
python tests/run_parts.py coverage    the tests again, measured
python tests/run_parts.py nightly     what takes hours
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent

# Tests with one of these markers are left to a part of their own.
ELSEWHERE = ("slow", "hosts", "slurm", "browser", "othermpi", "docs", "nightly")


@dataclass(frozen=True)
class Part:
    """A command for this Python, such as ("-m", "pytest", "tests"), and the minutes that it may take."""

    name: str
    minutes: float
    command: tuple[str, ...]


def pytest(*arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest", *arguments)


NOTEBOOKS = Part("notebooks", 8, pytest("--nbval", "--nbval-cell-timeout=120", "notebooks"))

EVERYWHERE = " and ".join(f"not {marker}" for marker in ELSEWHERE)
UNIT = Part("unit", 8.5, pytest("tests", "--ignore=tests/faults", "--ignore=tests/mpi", "-m", EVERYWHERE))
MPI = Part("mpi", 2.9, pytest("tests/mpi", "-m", EVERYWHERE))
FAULTS = Part("faults", 4.1, pytest("tests/faults", "-s", "-m", EVERYWHERE))


def measured(part: Part, minutes: float) -> Part:
    """The same part, keeping what it ran of labkit; slower."""
    return Part(f"{part.name}, measured", minutes, ("-m", "coverage", "run", *part.command))


PARTS = {
    "test": (
        Part("style", 0.2, ("-m", "ruff", "check")),
        Part("format", 0.2, ("-m", "ruff", "format", "--check")),
        Part("types", 1, ("-m", "mypy")),
        Part("layers", 0.5, ("-c", "import sys; from importlinter.cli import lint_imports_command as c; c()")),
        UNIT,
        MPI,
        FAULTS,
        replace(NOTEBOOKS, minutes=5),
    ),
    "test-all": (
        Part("browser", 4, pytest("tests", "-m", "browser")),
        Part("docs", 2, ("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ".ci/docs", "build/site")),
        Part("slow", 16, pytest("tests", "-m", "slow")),
        Part("hosts", 8, pytest("tests", "-m", "hosts")),
        Part("slurm", 7, pytest("tests", "-m", "slurm")),
        Part("othermpi", 13, pytest("tests", "-m", "othermpi")),
        replace(NOTEBOOKS, name="notebooks, once more", minutes=5),
    ),
    "faults": (FAULTS,),
    "coverage": (
        measured(UNIT, 15),
        measured(MPI, 6),
        measured(FAULTS, 8),
        measured(NOTEBOOKS, 12),
        measured(Part("benchmarks", 0, pytest("tests/commands/bench", "-m", "slow")), 6),
        Part("what was measured", 1, ("-m", "coverage", "combine", "--quiet")),
        Part("at least 90 %", 1, ("-m", "coverage", "report")),
    ),
    "nightly": (
        Part("soaks", 60, pytest("tests", "-s", "-m", "nightly")),
        *(replace(NOTEBOOKS, name=f"notebooks, time {n} of 20") for n in range(1, 21)),
        Part("benchmarks", 75, ("-m", "labkit.commands", "bench")),
    ),
}


def run(part: Part, report: Path) -> tuple[float, str]:
    """Seconds that the part took, and what became of it: "passed", or why not."""
    junit = (f"--junitxml={report}",) if "pytest" in part.command else ()
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *part.command, *junit],
        cwd=ROOT,
        env={"LABKIT_SPARE": "0"} | os.environ,  # two cores are busy enough with the ranks that run
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(part.minutes * 60)
        verdict = "passed" if code == 0 else f"failed (exit code {code})"
    except subprocess.TimeoutExpired:
        verdict = "over budget"
    finally:
        stop(process)
    return time.monotonic() - start, verdict


def stop(process: subprocess.Popen, patience: float = 20) -> None:
    """End the part's processes: first as Ctrl-C does, so that pytest still says what it was doing."""
    for kind in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, kind)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def cases(reports: list[Path]) -> list[ElementTree.Element]:
    parsed = (ElementTree.parse(report) for report in reports if report.exists())
    return [case for report in parsed for case in report.iter("testcase")]


def summary(ran: list[tuple[Part, float, str]], tests: list[ElementTree.Element]) -> str:
    lines = ["", f"{'part':24}{'minutes':>8}{'budget':>8}"]
    lines += [f"{part.name:24}{took / 60:8.1f}{part.minutes:8.1f}  {verdict}" for part, took, verdict in ran]
    times = [(float(test.get("time", 0)), f"{test.get('classname')}::{test.get('name')}") for test in tests]
    lines += ["", "The slowest ten tests, in seconds:"]
    lines += [f"{seconds:8.1f}  {name}" for seconds, name in sorted(times, reverse=True)[:10]]
    kinds = [{child.tag for child in test} for test in tests]
    failed = sum(bool(kind & {"failure", "error"}) for kind in kinds)
    skipped = sum("skipped" in kind for kind in kinds)
    lines += ["", f"{len(tests) - failed - skipped} passed, {failed} failed, {skipped} skipped"]
    return "\n".join(lines)


def main(parts: tuple[Part, ...]) -> int:
    """Run all parts, even after one failed, so that one run tells everything; 0 if each passed in time."""
    ran = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LABKIT_PROGRESS"] = folder  # what the user has predicted would be printed in lessons
        reports = [Path(folder, f"{number}.xml") for number in range(len(parts))]
        for part, report in zip(parts, reports, strict=True):
            print(f"\n{part.name}: {part.minutes} minutes at most", flush=True)
            ran.append((part, *run(part, report)))
        print(summary(ran, cases(reports)), flush=True)
    return int(any(verdict != "passed" for _, _, verdict in ran))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        sys.exit(f"Name one set of parts: {', '.join(PARTS)}")
    sys.exit(main(PARTS[sys.argv[1]]))
