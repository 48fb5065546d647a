"""What `labkit lab` adds to JupyterLab's page: a status bar, a living front page, lessons put back."""

import json
from io import BytesIO

import nbformat
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from labkit.exercises.catalogue import LESSONS
from labkit.figures.colours import DARK_PAGE, PAGE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

START = "import labkit\nlab = labkit.start(2)"


@pytest.fixture
def status(page):
    """The button in the status bar."""
    return page.locator(".labkit-status")


def says(page, status, words):
    status.get_by_text(words).wait_for()
    return status.inner_text()


def choose(page, status, label):
    status.click()
    page.locator(".lm-Menu").get_by_text(label).click()


def test_the_status_bar_tells_and_ends_the_lab(notebook, page, status, screenshot):
    opened = notebook(START, "%%px\nimport time\nfor i in range(150): time.sleep(0.1)", "%%px\nkept = 1")
    opened.run(0)
    says(page, status, "2 ranks, ready")
    assert opened.name.removesuffix(".ipynb") in status.inner_text()
    opened.start(1)
    says(page, status, "2 ranks, a cell runs")
    opened.finished(1)
    before = opened.run(2)
    choose(page, status, "Show What Each Rank Does")
    opened.until(lambda: opened.panel.locator(".labkit-tile").count() == 2, "two tiles")
    screenshot("view")
    choose(page, status, "Stop the Ranks")
    says(page, status, "no ranks")
    assert before == "" and "lab.restart()" in opened.run(2)


def test_the_front_page_lives(page, server, status, screenshot):
    server.progress.mkdir(exist_ok=True)
    file = server.progress / "progress.json"
    first, *others = [exercise.name for exercise in LESSONS[0].exercises]
    file.write_text(json.dumps({"exercises": {first: {}}}))
    page.goto(server.url(""))
    tab = page.locator(".lm-TabBar-tab").get_by_text("index.md")
    tab.click(timeout=60_000)  # another test may have left a lesson in front of it
    table = page.locator(".jp-MarkdownViewer:visible")
    table.get_by_text(f"1 of {1 + len(others)} exercises").wait_for(timeout=60_000)
    assert table.get_by_text("Continue with 00").is_visible()
    assert page.locator(".jp-Notification, .Toastify__toast").count() == 0, "nothing lies over it"
    screenshot("open")
    table.get_by_text("Send a tensor").first.click()
    page.locator(".jp-NotebookPanel:visible").wait_for()
    file.write_text(json.dumps({"exercises": dict.fromkeys([first, *others], {})}))
    tab.click()
    table.get_by_text("Continue with 01").wait_for()
    screenshot("later")


def test_a_lesson_is_put_back_and_what_was_made_of_it_kept(notebook, page, server, status):
    name = "02_sum_over_all_ranks.ipynb"
    before = (server.root / name).read_text()
    lesson = notebook(name=name)
    lesson.code(0).locator(".cm-content").first.click()
    page.keyboard.type("# mine")
    choose(page, status, "Put This Lesson Back")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    lesson.until(lambda: "# mine" not in lesson.code(0).inner_text(), "the lesson as it was")
    assert "# mine" in (server.root / f"my_{name}").read_text()
    again = nbformat.read(server.root / name, 4).cells
    assert [c.source for c in again] == [c.source for c in nbformat.reads(before, 4).cells]
    assert not any(cell.get("outputs") for cell in again), "no answer stands below a prediction"


def test_after_a_reload_no_cell_seems_to_run(notebook, page, server, screenshot):
    opened = notebook(
        START, "%%px\nimport time\nfor i in range(150): time.sleep(0.1)\nprint('done')", "lab.last"
    )
    opened.run(0)
    opened.start(1)
    opened.until(lambda: "-- " in opened.output(1), "what the ranks do")
    page.keyboard.press("Control+s")
    page.wait_for_timeout(1000)
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.locator(".jp-NotebookPanel:visible .jp-Cell").first.wait_for()
    opened.until(lambda: "lab.last shows its result" in opened.output(1), "what the reload has left")
    screenshot("reloaded")
    opened.until(lambda: opened._kernel() == "idle", "the kernel's answer")
    assert "[ranks 0-1] done" in opened.run(2)


def test_pictures_have_their_alternative_text(notebook, page):
    opened = notebook(
        "from labkit.figures import curves\ncurves({'one': ([2.0, 1.0], [])}, 'Loss falls')",
    )
    opened.run(0)
    assert opened.code(0).locator("img").get_attribute("alt").startswith("Figure: Loss falls")


@pytest.mark.parametrize(
    "name", ["00_meet_the_ranks.ipynb", "06_all_reduce_in_a_ring.ipynb"], ids=["00", "06"]
)
def test_stored_pictures_suit_the_theme(notebook, page, screenshot, name):
    opened = notebook(name=name)  # nothing is run: what is seen was stored
    pictures = opened.panel.locator(".jp-RenderedImage img").all()
    assert pictures
    for theme, behind in (("JupyterLab Dark", DARK_PAGE), ("JupyterLab Light", PAGE)):
        opened.theme(theme)
        for width in (1024, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            for number, picture in enumerate(pictures):
                picture.scroll_into_view_if_needed()
                opened.until(lambda p=picture, b=behind: corner(p) == b.lower(), f"a picture on {behind}")
                screenshot(f"{theme.split()[1]}-{width}-{number}")


def corner(picture):
    """The colour of a picture's first pixels, as they are on the screen."""
    seen = Image.open(BytesIO(picture.screenshot())).convert("RGB")
    return to_hex([part / 255 for part in seen.getpixel((3, 3))])
