"""How many learners a server bears: so many go through lessons 00 to 04, and what it took is printed.

    python cluster/hub/load.py --learners 4 --faster 40

Each learner has a server at a hub that this brings up and takes down, a kernel for each lesson, and the lab
that the lesson starts. Between two cells a learner reads: the minutes of the lesson, divided by its cells and
by `--faster`. Answers are filled in, predictions made. What a browser asks beside cells is left out.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import nbformat
import psutil
import requests

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cluster.hub import limits
from cluster.hub.learner import Learner
from labkit.exercises.catalogue import LESSONS
from labkit.launch.hosts.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "of the load test"
LOOK_EVERY = 5.0
"""Seconds between two looks at memory and processors."""
GB = 2**30


@dataclass
class Ran:
    """A cell that a learner ran: how long it took, and why it failed if it did."""

    learner: str
    lesson: str
    cell: int
    seconds: float
    failed: str = ""
    starts_lab: bool = False
    is_last: bool = False


@dataclass
class Figures:
    """What was measured."""

    learners: int
    faster: float
    servers: list[float] = field(default_factory=list)
    cells: list[Ran] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    processors: dict[str, dict[str, float]] = field(default_factory=dict)
    together: list[int] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def row(self) -> str:
        """One row of the table."""
        cells = [ran.seconds for ran in self.cells if not ran.starts_lab]
        labs = [ran.seconds for ran in self.cells if ran.starts_lab]
        most = [max(looks) / GB for looks in self.memory.values() if looks]
        work = sum(sum(each.values()) for each in self.processors.values())
        failures = len(self.failed) + sum(bool(ran.failed) for ran in self.cells)
        done = len({(ran.learner, ran.lesson) for ran in self.cells if ran.is_last})
        figures = [
            self.learners,
            f"{part(self.servers, 50):.0f} / {max(self.servers, default=0):.0f}",
            f"{part(labs, 50):.1f} / {max(labs, default=0):.1f}",
            f"{part(cells, 50):.2f}",
            f"{part(cells, 95):.2f}",
            f"{statistics.mean(most or [0]):.2f} / {max(most, default=0):.2f}",
            f"{work / max(1, len(self.cells)):.2f}",
            f"{len(self.cells)} / {done}",
            failures,
            f"{statistics.mean(self.load or [0]):.0f}",
        ]
        return f"| {' | '.join(map(str, figures))} |"


HEAD = (
    "learners|server's start, s: median / longest|lab's start, s: median / longest|cell, s: p50|p95|"
    "memory of a learner at most, GB: mean / largest|processor seconds a cell|cells run / lessons finished|"
    "failed|load of the machine"
)


def part(values: Sequence[float], percent: int) -> float:
    """The value below which so many percent lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else 0.0


def filled(path: Path) -> tuple[list, float]:
    """The code cells of a lesson as a learner leaves them who has done everything, and its minutes."""
    notebook = nbformat.read(path, as_version=4)
    lesson = next(lesson for lesson in LESSONS if lesson.number == path.name[:2])
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        cell.source = re.sub(r"(labkit\.predict\(\"\w+\", )None\)", r"\g<1>4)", cell.source)
        for exercise in lesson.exercises:
            if cell.source == f"%%px\n{exercise.stub.rstrip()}":
                cell.source = f"%%px\n{exercise.solution}"
        for name, question in lesson.named_questions.items():
            cell.source = cell.source.replace(f'("{name}", None)', f'("{name}", "{question.right}")')
    minutes = re.search(r"\| \*\*Minutes\*\* \| (\d+)", notebook.cells[0].source)
    return cells, float(minutes[1]) if minutes else 30.0


def study(
    learner: Learner, lessons: Sequence[Path], figures: Figures, pauses: random.Random, until: float
) -> None:
    """All that one learner does, or as far as the time goes."""
    try:
        learner.log_in()
        begun = time.monotonic()
        for _ in learner.start():
            pass
        figures.servers.append(time.monotonic() - begun)
        for path in lessons:
            cells, minutes = filled(path)
            kernel = learner.open(f"course/{path.name}")
            for number, cell in enumerate(cells):
                if time.monotonic() > until:
                    return
                time.sleep(pauses.uniform(0.5, 1.5) * minutes * 60 / len(cells) / figures.faster)
                came = kernel.run(cell.source)
                shall_fail = "raises-exception" in cell.metadata.get("tags", [])
                failed = "" if bool(came.error) == shall_fail else f"{came.error}: {came.text[-300:]}"
                starts = "labkit.start(" in cell.source
                last = number == len(cells) - 1
                ran = Ran(learner.name, path.name[:2], number, came.seconds, failed, starts, last)
                figures.cells.append(ran)
                if failed:
                    print(f"{learner.name}, lesson {path.name[:2]}, cell {number}: {failed}", file=sys.stderr)
    except (requests.RequestException, OSError, AssertionError, LookupError) as error:
        figures.failed.append(f"{learner.name}: {error}")
        print(figures.failed[-1], file=sys.stderr)


def look(hub: psutil.Process, homes: Path, figures: Figures, ended: threading.Event) -> None:
    """Note what each learner's processes take, until the end."""
    while not ended.wait(LOOK_EVERY):
        places = {}
        for process in hub.children():
            try:
                command = process.cmdline()
            except psutil.Error:  # it has just ended
                continue
            names = [word for word in command if Path(word).parent == homes]
            if names and command[0] == "bwrap":
                places[Path(names[0]).name] = limits.tree(process.pid)
        everything = 0
        for name, processes in places.items():
            used = sum(limits.memory(processes).values())
            figures.memory.setdefault(name, []).append(used)
            everything += used
            times = figures.processors.setdefault(name, {})
            for process in processes:
                try:
                    spent = process.cpu_times()
                    times[f"{process.pid} {process.create_time()}"] = spent.user + spent.system
                except psutil.Error:
                    continue
        figures.together.append(everything)
        figures.load.append(os.getloadavg()[0])


def measure(learners: int, faster: float, minutes: float, folder: Path) -> Figures:
    """Bring up a hub, let so many learners study, and end it."""
    url = f"http://localhost:{free_port()}"
    told = {"LABKIT_HUB_PASSWORD": PASSWORD, "PYTHON": sys.executable}
    command = [
        ROOT / "cluster" / "hub" / "up",
        "--try",
        folder,
        f"--JupyterHub.bind_url={url.replace('localhost', '127.0.0.1')}",
    ]
    with open(folder / "hub.log", "w") as log:
        hub = subprocess.Popen(command, env=os.environ | told, stdout=log, stderr=log)
    figures, ended = Figures(learners, faster), threading.Event()
    until = time.monotonic() + 60 * minutes
    watching = threading.Thread(
        target=look, args=[psutil.Process(hub.pid), folder / "homes", figures, ended], daemon=True
    )
    try:
        if not came_up(f"{url}/hub/login", hub):
            raise SystemExit(f"the hub did not come up:\n{(folder / 'hub.log').read_text()[-2000:]}")
        watching.start()
        lessons = sorted((ROOT / "notebooks").glob("0[0-4]_*.ipynb"))
        begun = time.monotonic()
        working = [
            threading.Thread(
                target=study,
                args=[Learner(url, f"learner{n}", PASSWORD), lessons, figures, random.Random(n), until],
                daemon=True,
            )
            for n in range(learners)
        ]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
        figures.seconds = time.monotonic() - begun
    finally:
        ended.set()
        hub.terminate()
        hub.wait(90)
    return figures


def came_up(url: str, hub: subprocess.Popen) -> bool:
    """Whether the hub answers, as soon as it does."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and hub.poll() is None:
        with suppress(requests.RequestException):
            requests.get(url, timeout=5).raise_for_status()
            return True
        time.sleep(0.2)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, nargs="+", default=[2])
    parser.add_argument("--faster", type=float, default=40.0, help="than a class reads (%(default)g)")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which learners stop (%(default)g)")
    parser.add_argument("--into", type=Path, help="a folder for all figures, as JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and the hub is ended
    names = HEAD.split("|")
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
    for learners in options.learners:
        with tempfile.TemporaryDirectory(prefix="labkit-load-") as folder:
            figures = measure(learners, options.faster, options.minutes, Path(folder))
        print(figures.row(), flush=True)
        if options.into:
            file = options.into / f"load-{learners}.json"
            file.write_text(json.dumps(asdict(figures), indent=1))


if __name__ == "__main__":
    main()
