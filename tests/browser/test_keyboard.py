"""From the front page to the end of lesson 00, and an exercise, without a mouse; the focus can be seen."""

import nbformat
import pytest

from labkit.exercises.catalogue import exercise_named
from tests.browser.conftest import served
from tests.browser.notebook import Notebook

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

MOST = 120
"""Presses of Tab to reach anything on a page."""
FOCUSED = "() => document.activeElement?.textContent.trim() ?? ''"
OUTLINE = "() => getComputedStyle(document.activeElement).outlineStyle"
NO_MOUSE = """() => {
    for (const kind of ['mousedown', 'pointerdown', 'wheel'])
        addEventListener(kind, () => { window.touched = kind; }, { capture: true });
}"""
FIRST = "00_meet_the_ranks.ipynb"
SOLVED = exercise_named("my_sum").solution


@pytest.fixture(scope="module")
def fresh(chromium, tmp_path_factory):
    """A learner's first day: nothing is open but the front page, and nothing has been done."""
    with served(tmp_path_factory.mktemp("keyboard")) as running:
        yield running


def tab_to(page, words):
    """Go by Tab to what has these words, as a link or a button."""
    for _ in range(MOST):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == words:
            return
    raise AssertionError(f"{MOST} presses of Tab do not lead to {words!r}")


def go_to(lesson, cell):
    """From cell to cell by the arrow keys, as after Escape."""
    while (here := lesson.focused()) != cell:
        lesson.page.keyboard.press("ArrowDown" if here < cell else "ArrowUp")
        lesson.until(lambda here=here: lesson.focused() != here, f"the focus to leave cell {here}")


def write(page, source):
    """Put that in the place of what a cell has, and leave it."""
    page.keyboard.press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    for number, line in enumerate(source.splitlines()):
        if number:
            page.keyboard.press("Enter")
            page.keyboard.press("Shift+Home")  # what the editor indents on its own
            page.keyboard.press("Delete")
        page.keyboard.type(line)
    page.keyboard.press("Escape")


def test_a_lesson_and_an_exercise_without_a_mouse(fresh, page, screenshot):
    cells = nbformat.read(fresh.root / FIRST, 4).cells
    page.goto(fresh.url(""))
    page.locator(".jp-MarkdownViewer:visible").get_by_text("Meet the ranks").first.wait_for(timeout=60_000)
    page.evaluate(NO_MOUSE)

    tab_to(page, "Meet the ranks")
    assert page.evaluate(OUTLINE) != "none", "nobody sees where the focus is"
    screenshot("link")
    page.keyboard.press("Enter")
    lesson = Notebook(page, fresh, FIRST, is_open=True)

    ran = 0
    go_to(lesson, 0)
    for place, cell in enumerate(cells):
        assert lesson.focused() == place
        lesson.press_on()
        if cell.cell_type == "code":
            lesson.finished(ran)
            announced = "raises-exception" in cell.metadata.get("tags", [])
            assert lesson.failed(ran) == announced, f"{cell.source}\n\n{lesson.output(ran)}"
            ran += 1
    screenshot("end")

    page.keyboard.press("Escape")
    stub = next(place for place, cell in enumerate(cells) if "def my_sum" in cell.source)
    check = next(place for place, cell in enumerate(cells) if cell.source == 'labkit.check("my_sum")')
    go_to(lesson, stub)
    write(page, f"%%px\n{SOLVED}")
    lesson.press_on()
    go_to(lesson, check)
    number = sum(cell.cell_type == "code" for cell in cells[:check])
    before = lesson.output(number)
    lesson.press_on()
    lesson.until(lambda: lesson.output(number) != before, "the answer's verdict")
    assert "solved" in lesson.finished(number) and "not solved" not in lesson.output(number)
    screenshot("solved")
    assert page.evaluate("() => window.touched") is None, "that took a mouse"


def test_the_lab_is_told_and_ended_by_keys(fresh, page):
    """The button in the status bar is reached by Tab, and its menu by Enter and the arrows."""
    page.goto(fresh.url("lab"))
    page.locator(".labkit-status").get_by_text("rank").wait_for(timeout=60_000)
    page.evaluate(NO_MOUSE)
    tab_to(page, page.locator(".labkit-status").inner_text())
    assert page.evaluate(OUTLINE) != "none", "nobody sees where the focus is"
    page.keyboard.press("Enter")
    page.locator(".lm-Menu").get_by_text("Stop the Ranks").wait_for()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator(".labkit-status").get_by_text("no ranks").wait_for()
    assert page.evaluate("() => window.touched") is None, "that took a mouse"
