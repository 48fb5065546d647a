"""Random histories of labs for so many seconds, each in a process of its own; one that fails, made small.

python -m tests.faults.fuzz SECONDS SEED
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from labkit.lab.remote import crowded
from labkit.launch import processes

from . import notebook
from .histories import KILL, History, history

ROOT = Path(__file__).parents[2]
SHARED = Path("/dev/shm")
LONGEST = 600.0
"""Seconds until a history is given up that neither ends nor notices that a cell does not."""
NOTHING_LEFT = 30.0
"""Seconds in which all that was a lab's must be gone."""
SHRINKING = 240.0
"""Seconds spent on making a history small that fails."""


def script(told: History) -> str:
    """A Python script that plays a history, to be run in the repository's root."""
    return (
        "from tests.faults.histories import History, Step, Strike\n"
        f"from tests.faults.notebook import play\n\nplay({_laid_out(told)})\n"
    )


def _laid_out(told: History) -> str:
    steps = "".join(f"    {step!r},\n" for step in told.steps)
    return repr(replace(told, steps=())).replace("steps=()", f"steps=(\n{steps})")


def fault(told: History, log: list[str] | None = None) -> str:
    """Play it where its labs' folders are its own: what went wrong, or ""."""
    with tempfile.TemporaryDirectory() as runtime:
        before = set(os.listdir(SHARED))
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        try:
            done = subprocess.run(
                [sys.executable, "-c", script(told)],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path, "MPLBACKEND": "agg", "JUPYTER_RUNTIME_DIR": runtime},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired as expired:
            return f"no end in {LONGEST:.0f} s\n{(expired.stdout or b'').decode()[-3000:]}"
        if log is not None:
            log.append(done.stdout)
        wrong = []
        if done.returncode != (-9 if told.end == KILL else 0) or "Traceback" in done.stderr:
            wrong.append(f"exit code {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
        until = time.monotonic() + NOTHING_LEFT * crowded()
        while (left := _left(runtime, before)) and time.monotonic() < until:
            time.sleep(0.1)
        processes.end(notebook.of_labs(runtime), grace=0.0)
        return "\n".join([*wrong, *left])


def _left(runtime: str, before: set[str]) -> list[str]:
    """What is there of labs that are over."""
    alive = [f"{notebook.kind(p)} {p.pid} is left" for p in notebook.of_labs(runtime)]
    folders = (f"{folder} is left: {_files(folder)}" for folder in Path(runtime, "labkit").glob("*"))
    return [
        *alive,
        *folders,
        *(f"{name} is left in {SHARED}" for name in set(os.listdir(SHARED)) - before),
    ]


def _files(folder: Path) -> list[str]:
    """What is in it, of a folder that may go away meanwhile."""
    return sorted(file for _, _, files in os.walk(folder) for file in files)


def smaller(told: History) -> Iterator[History]:
    """The same without a half of its steps, without one step, without one strike."""
    steps, half = told.steps, len(told.steps) // 2
    if half > 1:
        yield replace(told, steps=steps[half:])
        yield replace(told, steps=steps[:half])
    for n in range(len(steps)):
        yield replace(told, steps=steps[:n] + steps[n + 1 :])
    for n, step in enumerate(steps):
        for strike in step.strikes:
            kept = replace(step, strikes=tuple(s for s in step.strikes if s != strike))
            yield replace(told, steps=(*steps[:n], kept, *steps[n + 1 :]))


def minimal(told: History, fails: Callable[[History], bool], until: float, tries: int = 2) -> History:
    """The smallest that still fails in one of so many tries, as far as that is found in time."""
    for candidate in smaller(told):
        for _ in range(tries):
            if time.monotonic() > until:
                return told
            if fails(candidate):
                return minimal(candidate, fails, until, tries)
    return told


def fuzz(seconds: float, seed: int) -> str:
    """Histories until the time is over or one has failed: that one made small, as a script; else ""."""
    began, counts, number, slowest = time.monotonic(), Counter(), 0, 0.0
    while time.monotonic() - began < seconds:
        told, log = history(f"{seed}/{number}"), []
        wrong = fault(told, log)
        said = "".join(log)
        counts.update(histories=1, cells=said.count(" took "), interrupts=said.count("\nSIGINT"))
        counts.update(kills=said.count("\nSIG") - said.count("\nSIGINT"))
        slowest = max(slowest, *map(float, re.findall(r"right again after ([\d.]+)", said)), 0.0)
        print(f"{time.monotonic() - began:5.0f} s, history {seed}/{number}: {wrong or 'kept'}", flush=True)
        if wrong:
            found = minimal(told, lambda h: bool(fault(h)), time.monotonic() + SHRINKING)
            return f"{script(found)}\n# seed {seed}/{number}: {fault(found) or wrong}\n# after {dict(counts)}"
        number += 1
    print(json.dumps(counts | {"slowest next right cell, in seconds": slowest}))
    return ""


if __name__ == "__main__":
    sys.exit(fuzz(float(sys.argv[1]), int(sys.argv[2])) or 0)
