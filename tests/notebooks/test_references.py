"""Nothing names a lesson that does not exist: not code, not prose, not documentation."""

import re
from pathlib import Path

import pytest

from .conftest import LESSONS

ROOT = Path(__file__).parents[2]
THERE = {lesson.name[:2] for lesson in (*LESSONS, *(ROOT / "notebooks" / "course").glob("*.ipynb"))}
NAMED = re.compile(r"\b[Ll]essons? (\d\d(?:(?:, | and | to | or )\d\d\b)*)")


def named(text: str) -> set[str]:
    """The numbers of the lessons that a text names, as in "lessons 02, 05 and 06"."""
    return {number for found in NAMED.findall(text) for number in re.findall(r"\d\d", found)}


def texts() -> list[Path]:
    folders = [ROOT / name for name in ("labkit", "tests", "notebooks", "cluster", ".ci")]
    kinds = (".py", ".md", ".ipynb", ".toml", ".yml")
    below = (path for folder in folders for path in folder.rglob("*") if path.suffix in kinds)
    return [*ROOT.glob("*.md"), *(path for path in below if "made" not in path.parts)]  # the site's copies


@pytest.mark.parametrize("path", texts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_lesson_that_is_named_exists(path):
    assert named(path.read_text(encoding="utf-8")) <= THERE


def test_a_lesson_that_does_not_exist_is_found():
    assert named(f"lessons 02, 05 and {96}") - {"02", "05"} == {"96"}
