"""A newcomer's way through each lesson: from cell to cell by Shift+Enter, and no error that is not announced.

A picture of each screen is kept in the folder LABKIT_SCREENSHOTS, or else in screenshots/ here. Look at them.
"""

import nbformat
import pytest

from tests.lessons import NOTEBOOKS

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(240)]

LESSONS = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
TOO_WIDE = "all => all.filter(o => o.scrollWidth > o.clientWidth + 1).map(o => o.innerText.slice(0, 200))"
PICTURES = "all => all.map(i => [i.complete && i.naturalWidth, i.clientWidth])"
SHOWN = "img:not(.labkit-timeline .instead, .labkit-timeline .instead *)"
"""Pictures but those that stand for a timeline where it cannot be touched."""


@pytest.mark.parametrize("name", LESSONS, ids=lambda name: name[:2])
def test_cell_by_cell_from_the_keyboard(notebook, server, page, screenshot, name):
    cells = nbformat.read(server.root / name, 4).cells
    lesson = notebook(name=name)
    lesson.command("Clear Outputs of All Cells")
    lesson.until(lambda: not lesson.has_run(0), "empty cells")
    ran = 0
    for place, cell in enumerate(cells):
        assert lesson.focused() == place
        lesson.press_on()
        if cell.cell_type == "code":
            lesson.finished(ran)
            announced = "raises-exception" in cell.metadata.get("tags", [])
            assert lesson.failed(ran) == announced, f"{cell.source}\n\n{lesson.output(ran)}"
            ran += 1
    for screen in lesson.screens():
        screenshot(f"{screen:02d}")
    outputs = lesson.panel.locator(".jp-OutputArea-output")
    assert outputs.evaluate_all(TOO_WIDE) == [], "an output has to be scrolled sideways"
    for natural, shown in outputs.locator(SHOWN).evaluate_all(PICTURES):
        assert natural and shown >= 0.9 * natural, "a picture is shrunk, and its letters with it"
