"""Every number in a lesson's prose is one that a cell shows, or has its source.

Convention: `<!-- source: ... -->` behind a sentence names where a claim comes from that no cell shows, and
`<!-- no cell -->` marks a claim that has neither yet. The list of those is empty.
"""

import re
from pathlib import Path

import nbformat
import pytest

from .conftest import LESSONS

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")
UNREAD = (
    r"(?ims)```.*?```|^#.*?$|\]\([^)]*\)|\(\w+, \d+ minutes\.?\)|arXiv [\d.]+|"
    r"(?:lesson|section)s? [\d.]+(?:(?:,| and| to) [\d.]+)*"
)
"""Code blocks, headings, addresses of links, an exercise's minutes, numbers of lessons, sections, papers."""


def values(text: str) -> set[float]:
    """The numbers of two digits or more: small ones count things in the sentence. 20_000 is 20,000."""
    text = re.sub(r"(?<=\d)_(?=\d)", "", text)
    found = (number.rstrip(",").replace(",", "") for number in NUMBER.findall(text))
    return {float(number) for number in found if len(number) > 1}


def without_a_cell(lesson) -> list[str]:
    """The sentences with a number that no cell has in its code or output, and that name no source."""
    code = [cell for cell in lesson.cells if cell.cell_type == "code"]
    shown = values(" ".join(f"{cell.source} {cell.outputs}" for cell in code))
    prose = "\n\n".join(cell.source for cell in lesson.cells[1:] if cell.cell_type == "markdown")
    prose = re.sub(r"(?ms)^## From the literature$.*?(?=^## )", "", prose)  # a test of its own
    sentences = re.split(r"(?<=[.?!])\s+(?!<!--)|\n\n", re.sub(UNREAD, " ", prose))
    return [s for s in sentences if "<!-- source: " not in s and values(s) - shown]


def test_no_claim_is_without_a_cell_or_a_source(lesson, prose):
    assert "<!-- no cell -->" not in prose
    alone = without_a_cell(lesson)
    assert alone == [], "show it in a cell, or add <!-- source: ... --> behind it:\n" + "\n".join(alone)


def test_what_comes_from_the_literature_names_it(prose):
    section = re.search(r"(?ms)^## From the literature$(.*?)(?=^## )", prose)[1]
    assert re.search(r"\b(19|20)\d\d\b|arXiv", section), "name a year or an arXiv number in the section"


def test_a_number_that_nobody_shows_is_found():
    lesson = nbformat.read(LESSONS[0], as_version=4)
    assert without_a_cell(lesson) == []
    lesson.cells[
        -1
    ].source += "\n\nIt was 98,765.4 times as fast. It took 98,765.4 s. <!-- source: a paper -->"
    assert without_a_cell(lesson) == ["It was 98,765.4 times as fast."]


FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)
SITE = Path(__file__).parents[2] / ".ci" / "site"


def test_the_site_can_draw_its_formulas(prose, monkeypatch):
    monkeypatch.syspath_prepend(SITE)
    from formulas import mathml

    for block, inline in FORMULA.findall(re.sub(r"(?s)```.*?```|`[^`]*`", "", prose)):
        assert "<math" in mathml(block or inline, bool(block))
        assert not re.search(r"frac\s*[^{\s]", block or inline), (
            "of \\frac12 the site makes 12 over what follows"
        )


def test_a_formula_that_cannot_be_drawn_is_found(monkeypatch):
    monkeypatch.syspath_prepend(SITE)
    from formulas import mathml

    with pytest.raises(ValueError, match="Unknown LaTeX command"):
        mathml(r"1 + \dots + R", False)
