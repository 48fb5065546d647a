"""Run the parts of the test suite, each within its budget of minutes, and say where the time went.

A budget is two or three times what its part takes where nothing else runs, so that what hangs still ends.

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
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

import psutil

from labkit.launch import living

ROOT = Path(__file__).resolve().parent.parent

# Tests with one of these markers are left to a part of their own.
ELSEWHERE = (
    "timed", "slow", "hosts", "slurm", "browser", "othermpi", "pythons", "torches", "docs", "nightly", "gpu",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A command for this Python, such as ("-m", "pytest", "tests"), and the minutes that it may take."""

    name: str
    minutes: float
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def pytest(*arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest", *arguments)


def marked(markers: str) -> tuple[str, ...]:
    """The tests with these markers. Only files that name the first are collected, which is quicker."""
    first = f"mark.{markers.split()[0]}"
    files = [path for path in sorted(ROOT.glob("tests/**/test_*.py")) if first in path.read_text()]
    return pytest(*(str(path.relative_to(ROOT)) for path in files), "-m", markers)


EVERYWHERE = " and ".join(f"not {marker}" for marker in ELSEWHERE)
UNIT = ("tests", "--ignore=tests/faults", "--ignore=tests/mpi")
NOT_STORED = "--ignore=notebooks/course"  # it runs in a course of its own: tests/exercises/test_course.py
NOTEBOOKS = Part("notebooks", 25, pytest("--nbval", "--nbval-cell-timeout=120", NOT_STORED, "notebooks"))
# The notebooks of a run share one lab, as those of a JupyterLab do: it ends with this process.
SERVER = {"LABKIT_SERVER": living.identity(psutil.Process())}


# What these assert of times that they measured, a busy machine would change; and 12 computes all the time.
LESSONS_ALONE = (
    "05", "06", "07", "08", "09", "10", "11", "12", "13", "15", "16", "17", "19", "20", "22", "23", "25",
)  # fmt: skip


def lessons(alone: bool) -> Part:
    """The lessons that need the cores to themselves, or the others; all share one lab."""
    paths = sorted(ROOT.joinpath("notebooks").glob("*.ipynb"))
    chosen = [str(path.relative_to(ROOT)) for path in paths if (path.name[:2] in LESSONS_ALONE) == alone]
    command = (*NOTEBOOKS.command[:-1], *chosen)
    return Part("lessons alone" if alone else "lessons", 25, command, SERVER)


# What is stored must not depend on the processor, or on how many cores shared a sum.
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}
ANOTHER_PROCESSOR = replace(NOTEBOOKS, name="another processor", minutes=25, environment=SERVER | PLAIN)
# These run one after the other: a lab that belongs to the process would keep the first arithmetic.
PERTURBED = {"PYTHONPATH": str(ROOT / "tests" / "notebooks" / "perturbed")}
PERTURBED_WEIGHTS = replace(NOTEBOOKS, name="perturbed weights", minutes=25, environment=PERTURBED)
AVX2 = replace(NOTEBOOKS, name="AVX2", minutes=25, environment={"ATEN_CPU_CAPABILITY": "avx2"})
ONE_THREAD = replace(NOTEBOOKS, name="one thread", minutes=25, environment={"OMP_NUM_THREADS": "1"})
OTHER_ARITHMETICS = (PERTURBED_WEIGHTS, AVX2, ONE_THREAD)
LAB = Part("lab", 25, pytest("tests/lab", "-m", f"ranks and {EVERYWHERE}"))
RANKS = Part("ranks", 25, pytest(*UNIT, "--ignore=tests/lab", "-m", f"ranks and {EVERYWHERE}"))
TIMED = Part("timed", 5, marked("timed and not slow"))
MPI = Part("mpi", 12, pytest("tests/mpi", "-m", EVERYWHERE))
FAULTS = Part("faults", 10, pytest("tests/faults", "-s", "-m", EVERYWHERE))

PURE = Part("pure", 15, pytest(*UNIT, "-m", f"not ranks and {EVERYWHERE}"))
LINT = (
    Part("style", 3, ("-m", "ruff", "check")),
    Part("format", 3, ("-m", "ruff", "format", "--check")),
    # A cache may keep errors of modules that have come since.
    Part("types", 8, ("-m", "mypy", "--cache-dir=/dev/null")),
    Part("layers", 3, ("-c", "from importlinter.cli import lint_imports_command as lint; lint()")),
)

# Random histories of a lab: three minutes of them among the slow, an hour by night.
FUZZ = "tests/faults/test_fuzz.py"
NO_FUZZ = f"--ignore={FUZZ}"
NO_SOAK = "--ignore=tests/faults/test_soak.py"

# What takes long: what compares no measured times, labs that are harmed, answers, the backend, and lessons.
ANSWERS = ("tests/exercises", "tests/algorithms")
CLASS = ("tests/cluster", "tests/commands")
OTHER_PARTS = (*ANSWERS, *CLASS, "tests/faults", "tests/mpi", "tests/notebooks", "tests/programs")
ELSEWHERE_SLOW = (f"--ignore={path}" for path in OTHER_PARTS)
NOT_TIMED = "slow and not timed and not nightly"
SLOW = Part("slow", 40, pytest("tests", *ELSEWHERE_SLOW, "-m", NOT_TIMED))
SLOW_PROGRAMS = Part("slow programs", 20, pytest("tests/programs", "-m", NOT_TIMED))
SLOW_CLASS = Part("slow class", 25, pytest(*CLASS, "-m", NOT_TIMED))
SLOW_FAULTS = Part("slow faults", 20, pytest("tests/faults", NO_FUZZ, "-m", NOT_TIMED))
SLOW_ANSWERS = Part("slow answers", 35, pytest(*ANSWERS, "-m", NOT_TIMED))
SLOW_MPI = Part("slow mpi", 20, pytest("tests/mpi", "-m", NOT_TIMED))
SLOW_LESSONS = Part("slow lessons", 35, pytest("tests/notebooks", "-m", "slow and not nightly"))
SLOW_TIMED = Part("slow timed", 5, marked("timed and slow and not nightly"))

DOCS = Part("docs", 8, ("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ".ci/site", "build/site"))
SLURM = Part("slurm", 20, marked("slurm and not nightly"))


def measured(part: Part, minutes: float) -> Part:
    """The same part, keeping what it ran of labkit; slower."""
    name, command = f"{part.name}, measured", ("-m", "coverage", "run", *part.command)
    return Part(name, minutes, command, {"PYTHONPATH": str(ROOT)})


Lane = tuple[Part, ...]  # one part after the other
Stage = tuple[Lane, ...]  # lanes at the same time


def in_turn(*parts: Part) -> tuple[Stage, ...]:
    """Each part has the cores to itself."""
    return tuple(((part,),) for part in parts)


PARTS: dict[str, tuple[Stage, ...]] = {
    "quick": ((LINT, (PURE,)),),
    # Ranks wait for each other most of the time, so two cores bear four tests at once; but what compares
    # measured times, as some lessons do, has them to itself.
    "test": (
        ((RANKS,), (LAB, FAULTS), (*LINT, PURE, MPI), (lessons(alone=False),)),
        *in_turn(TIMED, lessons(alone=True)),
    ),
    "test-all": (
        ((SLOW,), (SLOW_ANSWERS, DOCS, SLOW_PROGRAMS, SLOW_CLASS), (SLOW_FAULTS, SLOW_MPI, SLURM)),
        *in_turn(
            SLOW_TIMED,
            Part("random histories", 25, pytest(FUZZ, "-s", "-m", "slow and not nightly")),
            Part("browser", 25, marked("browser")),
            SLOW_LESSONS,
        ),
        # These wait for other processes most of the time. There is one box of hosts, so one lane needs it.
        (
            (Part("torches", 25, (*marked("torches and not nightly"), "-rs")),),
            (
                Part("hosts", 20, marked("hosts and not nightly")),
                Part("othermpi", 20, marked("othermpi and not nightly")),
            ),
            (Part("pythons", 40, (*marked("pythons and not nightly"), "-rs")),),
        ),
    ),
    "gpu": in_turn(Part("gpu", 60, pytest("tests/gpu", "-rfE", "-m", "gpu"))),
    "faults": in_turn(Part("faults", 40, pytest("tests/faults", NO_FUZZ, NO_SOAK, "--in-time", "-s"))),
    "coverage": in_turn(
        measured(PURE, 10),
        measured(RANKS, 25),
        measured(LAB, 20),
        measured(MPI, 15),
        measured(FAULTS, 15),
        measured(TIMED, 6),
        measured(NOTEBOOKS, 30),
        measured(Part("slow", 0, pytest("tests", NO_FUZZ, "-m", "slow and not nightly")), 60),
        Part("what was measured", 3, ("-m", "coverage", "combine", "--quiet")),
        Part("at least 90 %", 3, ("-m", "coverage", "report")),
    ),
    "arithmetic": in_turn(ANOTHER_PROCESSOR, *OTHER_ARITHMETICS),
    "nightly": in_turn(
        Part("soaks", 60, pytest("tests", NO_FUZZ, "--ignore=tests/torches", "-s", "-m", "nightly")),
        Part("newest PyTorch, all lessons", 60, pytest("tests/torches", "-rs", "-m", "nightly")),
        Part("fuzz", 75, pytest(FUZZ, "-s", "-m", "nightly")),
        *(replace(NOTEBOOKS, name=f"notebooks, time {n} of 20") for n in range(1, 21)),
        ANOTHER_PROCESSOR,
        *OTHER_ARITHMETICS,
        Part("benchmarks", 75, ("-m", "tests.bench")),
    ),
}


@dataclass(frozen=True)
class Ran:
    """What became of a part: "passed", or why not. Its tests are `cases`, the end of its report `said`."""

    part: Part
    seconds: float
    verdict: str
    cases: tuple[ElementTree.Element, ...] = ()
    said: str = ""


running: set[subprocess.Popen] = set()
ending = threading.Event()


def end_all(*_signal: object) -> None:
    """On Ctrl-C, or when CI's time is over: end what runs, begin nothing more, and so come to the summary."""
    ending.set()
    for process in list(running):
        threading.Thread(target=stop, args=(process, 10)).start()


def run(part: Part, folder: Path, output: int | None = None) -> Ran:
    """Run a part to its end, or to the end of its budget."""
    if ending.is_set():
        return Ran(part, 0.0, "not run: ended from outside")
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
    running.add(process)
    try:
        code = process.wait(part.minutes * 60)
        verdict = "passed" if code == 0 else f"failed (exit code {code})"
    except subprocess.TimeoutExpired:
        verdict = "over budget"
    finally:
        running.discard(process)
        stop(process)
    if ending.is_set():
        verdict = "ended from outside"
    cases = tuple(ElementTree.parse(report).iter("testcase")) if report.exists() else ()
    return Ran(part, time.monotonic() - start, verdict, cases)


def stop(process: subprocess.Popen, patience: float = 20) -> None:
    """End the part's processes: first as Ctrl-C does, so that pytest still says what it was doing."""
    for kind in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, kind)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def run_at_once(stage: Stage, folder: Path) -> list[Ran]:
    """Run lanes at the same time; each part prints when it has ended."""

    def one(part: Part) -> Ran:
        with tempfile.TemporaryFile("w+") as output:
            ran = run(part, folder, output.fileno())
            output.seek(0)
            said = output.read()
            print(f"\n{part.name}\n{said}", flush=True)
        return replace(ran, said="\n".join(said.splitlines()[-LAST_LINES:]))

    with ThreadPoolExecutor(len(stage)) as pool:
        return [ran for lane in pool.map(lambda lane: list(map(one, lane)), stage) for ran in lane]


LAST_LINES = 30


def summary(ran: list[Ran]) -> str:
    """The table of parts, where the time went, how many tests there were, and last what has not passed.

    Of a long report often no more than the end is kept.
    """
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
    for r in ran:
        if r.verdict != "passed":
            lines += ["", f"{r.part.name}: {r.verdict}", *filter(None, [r.said])]
    return "\n".join(lines)


def main(name: str) -> int:
    """Run all parts of a set, also after one failed, so that one run tells all; 0 if each passed in time."""
    if name != "nightly":  # by day the same draws each time: `tests/seed.py`
        os.environ.setdefault("LABKIT_TEST_SEED", "1")
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, end_all)
    ran: list[Ran] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LABKIT_PROGRESS"] = folder  # what the user has predicted would be printed in lessons
        for stage in PARTS[name]:
            parts = [part for lane in stage for part in lane]
            for part in parts:
                print(f"\n{part.name}: {part.minutes} minutes at most", flush=True)
            ran += run_at_once(stage, Path(folder)) if len(parts) > 1 else [run(parts[0], Path(folder))]
    print(summary(ran), flush=True)
    return int(any(part.verdict != "passed" for part in ran))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        sys.exit(f"Name one set of parts: {', '.join(PARTS)}")
    sys.exit(main(sys.argv[1]))
