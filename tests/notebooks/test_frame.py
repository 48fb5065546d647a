"""Every lesson has the frame that the course promises, and is stored as it was executed."""

import base64
import re
from pathlib import Path

import nbformat

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


def left_to_write(path: Path) -> list[str]:
    """The lines with TODO in a lesson's cells, in what it asks and in the answers to it, with their file."""
    number, root = path.stem[:2], path.parents[1]
    cells = nbformat.read(path, as_version=4).cells
    texts = {f"{path.name}, cell {place}": cell.source for place, cell in enumerate(cells, 1)}
    for file in (f"labkit/exercises/lessons/lesson_{number}.py", f"tests/exercises/answers_{number}.py"):
        texts[file] = (root / file).read_text(encoding="utf-8")
    return [
        f"{file}: {line.strip()}" for file, t in texts.items() for line in t.splitlines() if "TODO" in line
    ]


def test_one_title_and_a_name_that_match(path, prose):
    titles = re.findall(r"^# (.+)$", prose, re.MULTILINE)
    assert len(titles) == 1, f"{len(titles)} titles; a lesson has one line that begins with '# '"
    slug = re.sub(r"\W+", "_", titles[0].lower())
    assert re.match(r"\d\d_[a-z0-9_]+$", path.stem), "name the notebook by its number and its title"
    assert slug.startswith(path.stem[3:]), f"the title is {titles[0]!r}: rename {path.name} after it"


def test_sections_in_order(prose):
    found = re.findall(r"^## (.+)$", prose, re.MULTILINE)
    assert found == SECTIONS, f"the sections are, in this order: {', '.join(SECTIONS)}"


def test_the_header_says_what_the_lesson_is_for(lesson):
    before_start = lesson.cells[0].source
    assert [name for name in HEADER if f"**{name}**" not in before_start] == []


def test_length(prose, code):
    count = words(prose)
    assert 600 <= count <= 1600, f"{count} words; a lesson has 600 to 1,600"
    assert 12 <= len(code) <= 30, f"{len(code)} code cells; a lesson has 12 to 30"


def test_nothing_is_left_to_write(path):
    left = left_to_write(path)
    assert left == [], "still to write:\n" + "\n".join(left)


def test_cells_are_short(code):
    for cell in code:
        lines = cell.source.splitlines()
        assert len(lines) <= MAX_LINES, f"{len(lines)} lines, at most {MAX_LINES}:\n{cell.source}"
        widest = max(lines, key=len)
        assert len(widest) <= MAX_COLUMNS, f"{len(widest)} columns, at most {MAX_COLUMNS}:\n{widest}"


def test_prose_comes_before_code(lesson):
    kinds = [cell.cell_type for cell in lesson.cells]
    run = max(len(part) for part in "".join("c" if k == "code" else " " for k in kinds).split())
    assert kinds[0] == "markdown", "begin with prose"
    assert run <= 3, f"{run} code cells in a row; put prose between (at most 3)"


def test_stored_as_executed_from_top_to_bottom(path, lesson, code):
    counts = [cell.execution_count for cell in code]
    fix = f"run: python tests/notebooks/refresh.py notebooks/{path.name}"
    assert counts == list(range(1, len(code) + 1)), fix
    assert lesson.metadata.kernelspec.name == "python3"
    assert "widgets" not in lesson.metadata


def test_only_times_pictures_and_identities_are_not_compared(code):
    for cell in code:
        tags = set(cell.metadata.get("tags", []))
        assert tags <= TAGS, f"tags are {TAGS}; this cell has {tags}:\n{cell.source}"
        errors = [o for o in cell.outputs if o.output_type == "error"]
        announced = "raises-exception" in tags
        assert errors or not announced, f"is tagged raises-exception and does not fail:\n{cell.source}"
        assert announced or not errors, f"fails without the tag raises-exception:\n{cell.source}"
        pictures = any("image/png" in o.get("data", {}) for o in cell.outputs)
        compared = "nbval-ignore-output" not in tags
        assert not (pictures and compared), f"has a picture: tag it nbval-ignore-output:\n{cell.source}"


def test_pictures_are_small_and_described(code):
    for cell in code:
        for output in cell.outputs:
            png = output.get("data", {}).get("image/png")
            if png is not None:
                size = len(base64.b64decode(png))
                assert size <= MAX_PICTURE, (
                    f"{size} bytes, at most {MAX_PICTURE}: make it smaller\n{cell.source}"
                )
                about = output.metadata.get("image/png", {})
                made = "make it with labkit.figures"
                assert about.get("alt"), f"has no text: {made}\n{cell.source}"
                assert about.get("dark"), f"has no colours for a dark page: {made}\n{cell.source}"


def test_nothing_of_one_machine_is_stored(code, prose):
    compared = [c for c in code if "nbval-ignore-output" not in c.metadata.get("tags", [])]
    stored = prose + "".join(str(c.outputs) for c in compared)
    found = re.search(r"\S*/(home|root|Users|tmp|work)/\S*", stored)
    assert not found, f"shows a path of this machine: {found[0]}"


def test_key_points_end_the_lesson(prose):
    ending = prose.split("## Check yourself", 1)[1]
    for part in ("**Key points**", "**Where to read on**"):
        assert part in ending, f"the last cell lacks {part}"


def test_the_next_lesson_is_linked_at_the_end(path, prose):
    files = sorted(file.name for file in path.parent.glob("[0-9][0-9]_*.ipynb"))
    following = files[files.index(path.name) + 1 :][:1]
    linked = re.findall(r"^\*\*Next\*\*: lesson (\d\d), \[.+\]\((.+)\)$", prose.splitlines()[-1])
    assert linked == [(file[:2], file) for file in following], (
        "end it with **Next**: lesson NN, [Title](file)"
    )
