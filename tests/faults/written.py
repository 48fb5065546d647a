"""The table of faults as Markdown, kept beside the tests: `pytest tests/faults/test_faults.py -s --write`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("FAULTS.md")
_HEAD = """# Faults that a lab survives

Each happens to two ranks. The seconds are those from the fault to the verdict, in one run; the next cell
ran on the ranks of the last column. `make faults` runs them all; to renew this file:

    $ python -m pytest tests/faults/test_faults.py -s --write

"""
_COLUMNS = ("fault", "what the ranks were doing", "first line of the verdict", "seconds", "next cell")


@dataclass(frozen=True)
class Row:
    """One fault that has been tried."""

    fault: str
    doing: str
    verdict: str
    seconds: float
    after: str

    def __str__(self) -> str:
        return f"{self.seconds:5.2f} s  {self.fault}, {self.doing}: {self.verdict} ({self.after})"


def first_line(error: Exception) -> str:
    """What was found, without what differs from run to run."""
    said = getattr(error, "found", str(error)).splitlines()[0]
    return re.sub(r" \(pid \d+ on [^)]*\)", "", said)


def write(rows: list[Row]) -> None:
    """Renew the file of faults."""
    write_table(
        FILE, _HEAD, _COLUMNS, [(r.fault, r.doing, r.verdict, f"{r.seconds:.1f}", r.after) for r in rows]
    )


def write_table(file: Path, head: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [columns, ["---"] * len(columns)] + [[cell.replace("|", "\\|") for cell in row] for row in rows]
    file.write_text(head + "".join(f"| {' | '.join(line)} |\n" for line in lines))


def read(file: Path = FILE) -> list[list[str]]:
    """The rows of the file, a list of cells each."""
    lines = [line for line in file.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]
