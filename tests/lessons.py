"""What tests of several parts know of the lessons: where they are, and what the ranks said in them."""

import re
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
FIRST = sorted(NOTEBOOKS.glob("0[0-4]_*.ipynb"))


def lesson(number: str) -> Path:
    """The notebook of a lesson, as "04"."""
    return next(NOTEBOOKS.glob(f"{number}_*.ipynb"))


def said(notebook: Path, ranks: int) -> list[list[str]]:
    """Per rank the lines that the stored outputs of a lesson show, without cells that fail on purpose."""
    lines: list[list[str]] = [[] for _ in range(ranks)]
    for cell in nbformat.read(notebook, as_version=4).cells:
        if not cell.source.startswith("%%px") or "raises-exception" in cell.metadata.get("tags", []):
            continue
        for output in cell.outputs:
            who: list[int] = []
            for line in output["data"]["text/plain"].split("\n"):
                label = re.match(r"\[ranks? ([\d, -]+)\] ", line)
                if label:
                    who, margin = _numbers(label[1]), len(label[0])
                for rank in who:
                    lines[rank].append(line[margin:])
    return lines


def _numbers(text: str) -> list[int]:
    spans = [span.split("-") for span in text.split(", ")]
    return [n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)]
