"""Run the parts of the test suite, each within its budget of minutes, and say where the time went.

python tests/run_parts.py quick       style, types, layers and all tests that start no ranks
python tests/run_parts.py test        what any machine can run
python tests/run_parts.py test-all    what comes on top: takes longer, or needs more than a bare machine
python tests/run_parts.py gpu         what only a GPU can show; elsewhere, what was skipped and why
python tests/run_parts.py coverage    the tests again, measured
python tests/run_parts.py arithmetic  every notebook in other arithmetics than the one that it was stored in
python tests/run_parts.py nightly     what takes hours
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

import psutil

from labkit.launch import processes

ROOT = Path(__file__).resolve().parent.parent

# Tests with one of these markers are left to a part of their own.
ELSEWHERE = ("slow", "hosts", "slurm", "browser", "othermpi", "pythons", "docs", "nightly", "gpu")


@dataclass(frozen=True)
class Part:
    """A command for this Python, such as ("-m", "pytest", "tests"), and the minutes that it may take."""

    name: str
    minutes: float
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def pytest(*arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest", *arguments)


EVERYWHERE = " and ".join(f"not {marker}" for marker in ELSEWHERE)
UNIT = ("tests", "--ignore=tests/faults", "--ignore=tests/mpi")
NOTEBOOKS = Part("notebooks", 7, pytest("--nbval", "--nbval-cell-timeout=120", "notebooks"))
# The notebooks of a run share one lab, as those of a JupyterLab do: it ends with this process.
SERVER = {"LABKIT_SERVER": processes.identity(psutil.Process())}
SHARING = replace(NOTEBOOKS, environment=SERVER)
# What is stored must not depend on the processor, or on how many cores shared a sum.
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}
ANOTHER_PROCESSOR = replace(SHARING, name="another processor", minutes=10, environment=SERVER | PLAIN)
# These run one after the other: a lab that belongs to the process would keep the first arithmetic.
PERTURBED = {"PYTHONPATH": str(ROOT / "tests" / "notebooks" / "perturbed")}
PERTURBED_WEIGHTS = replace(NOTEBOOKS, name="perturbed weights", minutes=14, environment=PERTURBED)
AVX2 = replace(NOTEBOOKS, name="AVX2", minutes=14, environment={"ATEN_CPU_CAPABILITY": "avx2"})
ONE_THREAD = replace(NOTEBOOKS, name="one thread", minutes=14, environment={"OMP_NUM_THREADS": "1"})
OTHER_ARITHMETICS = ((PERTURBED_WEIGHTS,), (AVX2,), (ONE_THREAD,))
RANKS = Part("ranks", 8, pytest(*UNIT, "-m", f"ranks and {EVERYWHERE}"))
MPI = Part("mpi", 4, pytest("tests/mpi", "-m", EVERYWHERE))
FAULTS = Part("faults", 5, pytest("tests/faults", "-s", "-m", EVERYWHERE))

# Parts in one tuple run at the same time: none of them starts ranks, which want the cores to themselves.
QUICK = (
    Part("pure", 3, pytest(*UNIT, "-m", f"not ranks and {EVERYWHERE}")),
    Part("style", 1, ("-m", "ruff", "check")),
    Part("format", 1, ("-m", "ruff", "format", "--check")),
    Part("types", 2, ("-m", "mypy")),
    Part("layers", 1, ("-c", "from importlinter.cli import lint_imports_command as lint; lint()")),
)

SPHINX = ("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ".ci/site", "build/site")


def measured(part: Part, minutes: float) -> Part:
    """The same part, keeping what it ran of labkit; slower."""
    name, command = f"{part.name}, measured", ("-m", "coverage", "run", *part.command)
    return Part(name, minutes, command, {"PYTHONPATH": str(ROOT)})


PARTS: dict[str, tuple[tuple[Part, ...], ...]] = {
    "quick": (QUICK,),
    "test": (QUICK, (RANKS,), (MPI,), (FAULTS,), (SHARING,)),
    "test-all": (
        (Part("browser", 4, pytest("tests", "-m", "browser")),),
        (Part("docs", 2, SPHINX),),
        (Part("slow", 32, pytest("tests", "-m", "slow and not nightly")),),
        (Part("hosts", 10, pytest("tests", "-m", "hosts")),),
        (Part("slurm", 7, pytest("tests", "-m", "slurm")),),
        (Part("othermpi", 12, pytest("tests", "-m", "othermpi")),),
        (Part("pythons", 35, pytest("tests", "-rs", "-m", "pythons")),),
        (ANOTHER_PROCESSOR,),
    ),
    "gpu": ((Part("gpu", 60, pytest("tests/gpu", "-rfE", "-m", "gpu")),),),
    "faults": ((Part("faults", 6, pytest("tests/faults", "-s", "-m", "not nightly")),),),
    "coverage": (
        (measured(replace(QUICK[0]), 4),),
        (measured(RANKS, 12),),
        (measured(MPI, 5),),
        (measured(FAULTS, 6),),
        (measured(NOTEBOOKS, 12),),
        (measured(Part("slow", 0, pytest("tests", "-m", "slow and not nightly")), 30),),
        (Part("what was measured", 1, ("-m", "coverage", "combine", "--quiet")),),
        (Part("at least 90 %", 1, ("-m", "coverage", "report")),),
    ),
    "arithmetic": ((ANOTHER_PROCESSOR,), *OTHER_ARITHMETICS),
    "nightly": (
        (Part("soaks", 60, pytest("tests", "-s", "-m", "nightly")),),
        *((replace(NOTEBOOKS, name=f"notebooks, time {n} of 20"),) for n in range(1, 21)),
        *OTHER_ARITHMETICS,
        (Part("benchmarks", 75, ("-m", "labkit.commands", "bench")),),
    ),
}


@dataclass(frozen=True)
class Ran:
    """What became of a part: "passed", or why not; `cases` are its tests."""

    part: Part
    seconds: float
    verdict: str
    cases: tuple[ElementTree.Element, ...] = ()


def run(part: Part, folder: Path, output: int | None = None) -> Ran:
    """Run a part to its end, or to the end of its budget."""
    report = folder / f"{part.name}.xml"
    junit = (f"--junitxml={report}",) if "pytest" in part.command else ()
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *part.command, *junit],
        cwd=ROOT,
        # Two cores are busy enough with ranks; and what tests expect is the CPU's, also where there is a GPU.
        env={"LABKIT_SPARE": "0", "LABKIT_DEVICE": "cpu"} | os.environ | part.environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        start_new_session=True,
    )
    try:
        code = process.wait(part.minutes * 60)
        verdict = "passed" if code == 0 else f"failed (exit code {code})"
    except subprocess.TimeoutExpired:
        verdict = "over budget"
    finally:
        stop(process)
    cases = tuple(ElementTree.parse(report).iter("testcase")) if report.exists() else ()
    return Ran(part, time.monotonic() - start, verdict, cases)


def stop(process: subprocess.Popen, patience: float = 20) -> None:
    """End the part's processes: first as Ctrl-C does, so that pytest still says what it was doing."""
    for kind in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, kind)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def run_at_once(parts: tuple[Part, ...], folder: Path) -> list[Ran]:
    """Run parts at the same time; each prints when it has ended."""

    def one(part: Part) -> Ran:
        with tempfile.TemporaryFile("w+") as output:
            ran = run(part, folder, output.fileno())
            output.seek(0)
            print(f"\n{part.name}\n{output.read()}", flush=True)
        return ran

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(one, parts))


def summary(ran: list[Ran]) -> str:
    """The table of parts, where the time went, and how many tests there were."""
    cases = [case for part in ran for case in part.cases]
    lines = ["", f"{'part':24}{'minutes':>8}{'budget':>8}"]
    lines += [f"{r.part.name:24}{r.seconds / 60:8.1f}{r.part.minutes:8.1f}  {r.verdict}" for r in ran]
    files: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for case in cases:
        file, seconds = str(case.get("classname")), float(case.get("time", 0))
        files[file] += seconds
        tests[f"{file}::{case.get('name')}"] += seconds
    for what, times in (("files", files), ("tests", tests)):
        lines += ["", f"The slowest twenty {what}, in seconds:"]
        lines += [f"{seconds:8.1f}  {name}" for name, seconds in times.most_common(20)]
    kinds = [{child.tag for child in case} for case in cases]
    failed = sum(bool(kind & {"failure", "error"}) for kind in kinds)
    skipped = sum("skipped" in kind for kind in kinds)
    lines += ["", f"{len(cases) - failed - skipped} passed, {failed} failed, {skipped} skipped"]
    return "\n".join(lines)


def main(stages: tuple[tuple[Part, ...], ...]) -> int:
    """Run all parts, even after one failed, so that one run tells everything; 0 if each passed in time."""
    ran: list[Ran] = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["LABKIT_PROGRESS"] = name  # what the user has predicted would be printed in lessons
        for parts in stages:
            for part in parts:
                print(f"\n{part.name}: {part.minutes} minutes at most", flush=True)
            several = len(parts) > 1
            ran += run_at_once(parts, Path(name)) if several else [run(parts[0], Path(name))]
    print(summary(ran), flush=True)
    return int(any(part.verdict != "passed" for part in ran))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        sys.exit(f"Name one set of parts: {', '.join(PARTS)}")
    sys.exit(main(PARTS[sys.argv[1]]))
