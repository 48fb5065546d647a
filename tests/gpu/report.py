"""What became of each item of `make gpu`: as lines to read, and in a file of JSON."""

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest

FILE = Path(os.environ.get("LABKIT_GPU_REPORT") or Path(__file__).parents[2] / "build" / "gpu.json")


@dataclass(frozen=True)
class Item:
    """`outcome` is passed, failed or skipped, with the reason of the last two."""

    name: str
    outcome: str = "passed"
    seconds: float = 0.0
    reason: str = ""
    figures: dict[str, object] = field(default_factory=dict)


def after(item: Item, report: pytest.TestReport) -> Item:
    """The item after one more of its three phases: setup, call, teardown."""
    seconds, figures = round(item.seconds + report.duration, 2), dict(report.user_properties)
    item = replace(item, seconds=seconds, figures=item.figures | figures)
    if report.passed or item.outcome == "failed":
        return item
    return replace(item, outcome=report.outcome, reason=_reason(report))


def _reason(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).strip()


def counts(items: list[Item]) -> dict[str, int]:
    """How many passed, failed and were skipped."""
    found = Counter(item.outcome for item in items)
    return {outcome: found[outcome] for outcome in ("passed", "failed", "skipped")}


def write(items: list[Item], machine: dict[str, object]) -> None:
    """Keep what is known so far; an item that never ends leaves the ones before it."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    told = {"machine": machine, "counts": counts(items), "items": [asdict(item) for item in items]}
    FILE.write_text(json.dumps(told, indent=2, default=str) + "\n", encoding="utf-8")


def lines(items: list[Item]) -> list[str]:
    """A line per item: what became of it, its name, and its reason or its figures."""
    width = max(len(item.name) for item in items)
    return [f"{item.outcome:8}{item.name:{width + 2}}{_about(item)}".rstrip() for item in items]


def _about(item: Item) -> str:
    if item.reason:
        return item.reason.splitlines()[0]
    return ", ".join(f"{name} {value}" for name, value in item.figures.items())
