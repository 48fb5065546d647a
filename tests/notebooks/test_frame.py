"""Every lesson has the frame that the course promises, and is stored as it was executed."""

import base64
import re

SECTIONS = [
    "Start",
    "Predict",
    "Derive",
    "Run",
    "See",
    "Break it",
    "Exercises",
    "Measured against predicted",
    "From the literature",
    "Check yourself",
]
HEADER = ["Question", "You will be able to", "Minutes", "Needs", "Exact?"]
TAGS = {"nbval-ignore-output", "raises-exception"}
MAX_LINES, MAX_COLUMNS, MAX_PICTURE = 15, 88, 80_000


def words(prose: str) -> int:
    """Words that are read: no formulas, no code, nothing folded."""
    for hidden in (r"<details>.*?</details>", r"```.*?```", r"\$\$.*?\$\$", r"\$[^$]+\$", r"`[^`]*`"):
        prose = re.sub(hidden, " ", prose, flags=re.DOTALL)
    return len(re.findall(r"[A-Za-z][\w'-]*", prose))


def test_one_title_and_a_name_that_match(path, prose):
    titles = re.findall(r"^# (.+)$", prose, re.MULTILINE)
    assert len(titles) == 1
    slug = re.sub(r"\W+", "_", titles[0].lower())
    assert re.match(r"\d\d_[a-z0-9_]+$", path.stem) and slug.startswith(path.stem[3:])


def test_sections_in_order(prose):
    assert re.findall(r"^## (.+)$", prose, re.MULTILINE) == SECTIONS


def test_the_header_says_what_the_lesson_is_for(lesson):
    before_start = lesson.cells[0].source
    assert [name for name in HEADER if f"**{name}**" not in before_start] == []


def test_length(prose, code):
    assert 600 <= words(prose) <= 1200, words(prose)
    assert 12 <= len(code) <= 24, len(code)


def test_cells_are_short(code):
    for cell in code:
        lines = cell.source.splitlines()
        assert len(lines) <= MAX_LINES, cell.source
        assert max(map(len, lines)) <= MAX_COLUMNS, cell.source


def test_prose_comes_before_code(lesson):
    kinds = [cell.cell_type for cell in lesson.cells]
    run = max(len(part) for part in "".join("c" if k == "code" else " " for k in kinds).split())
    assert kinds[0] == "markdown" and run <= 3


def test_stored_as_executed_from_top_to_bottom(lesson, code):
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert lesson.metadata.kernelspec.name == "python3"
    assert "widgets" not in lesson.metadata


def test_only_times_pictures_and_identities_are_not_compared(code):
    for cell in code:
        tags = set(cell.metadata.get("tags", []))
        assert tags <= TAGS, tags
        errors = [o for o in cell.outputs if o.output_type == "error"]
        assert bool(errors) == ("raises-exception" in tags), cell.source
        pictures = any("image/png" in o.get("data", {}) for o in cell.outputs)
        assert not pictures or "nbval-ignore-output" in tags, cell.source


def test_pictures_are_small_and_described(code):
    for cell in code:
        for output in cell.outputs:
            png = output.get("data", {}).get("image/png")
            assert png is None or len(base64.b64decode(png)) <= MAX_PICTURE


def test_nothing_of_one_machine_is_stored(code, prose):
    compared = [c for c in code if "nbval-ignore-output" not in c.metadata.get("tags", [])]
    stored = prose + "".join(str(c.outputs) for c in compared)
    assert not re.search(r"/(home|root|Users|tmp|work)/", stored)


def test_key_points_end_the_lesson(prose):
    ending = prose.split("## Check yourself", 1)[1]
    assert "**Key points**" in ending and "**Where to read on**" in ending
