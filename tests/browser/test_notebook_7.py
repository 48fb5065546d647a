"""What labkit adds to cells, in Jupyter Notebook 7; what `labkit lab` adds to the page is not there."""

import os

import pytest

from tests.browser.notebook import Notebook7, write
from tests.browser.server import Server
from tests.browser.test_cells import RICH
from tests.browser.test_jupyterlab import START
from tests.browser.test_traces import TRACED
from tests.environments import with_notebook_7

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

AS_ROOT = ("--allow-root",) if os.geteuid() == 0 else ()


@pytest.fixture(scope="module")
def notebook_7(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook7")
    beside = with_notebook_7(tmp_path_factory.mktemp("installed"))
    root = f"--ServerApp.root_dir={folder / 'notebooks'}"
    running = Server(folder, ("notebook", root, *AS_ROOT), beside)
    try:
        yield running.wait()
    finally:
        running.stop()


def test_cells_are_as_in_jupyterlab(notebook_7, page, screenshot):
    cells = (START, "%%px\nlearning_rate = 0.1", "%%px\n", RICH, TRACED, "lab.view()", "lab.stop()")
    opened = Notebook7(page, notebook_7, write(notebook_7.root, "seven.ipynb", *cells))
    opened.run(0)
    opened.run(1)

    opened.code(2).locator(".cm-content").first.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("learning_r")
    page.keyboard.press("Tab")
    offered = page.locator(".jp-Completer-item:visible").get_by_text("learning_rate", exact=True)
    offered.first.wait_for()
    page.keyboard.press("Enter")
    assert "learning_rate" in opened.code(2).inner_text()

    opened.run(3)
    opened.until(lambda: "bold" in opened.output(3), "Markdown, which is drawn last")
    told = opened.output(3)
    assert told.index("table of 0") < told.index("table of 3")
    assert "careful" in opened.code(3).locator(".labkit-stderr").first.inner_text()
    pictures = opened.code(3).locator("figure img").all()
    assert len(pictures) == 4 and all(p.evaluate("i => i.complete && i.naturalWidth") == 90 for p in pictures)
    screenshot("rich")

    opened.run(4)
    drawn = opened.code(4).locator(".labkit-timeline")
    drawn.locator("g[aria-label*='all_reduce']").first.dispatch_event("mousemove")
    assert "4 kB of float32" in page.locator(".labkit-tip").inner_text()
    screenshot("timeline")

    opened.run(5)
    tiles = opened.code(5).locator(".labkit-tile")
    opened.until(lambda: tiles.count() == 4, "four tiles")
    assert "ready" in tiles.first.inner_text()
    screenshot("view")
    assert page.locator(".labkit-status").count() == 0, "the status bar is JupyterLab's"
    opened.run(6)
