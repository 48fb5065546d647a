"""A timeline in JupyterLab: touched by mouse and keys, in both themes, and where nothing is trusted."""

import json
from pathlib import Path

import nbformat
import pytest

from labkit.figures.colours import contrast
from labkit.figures.picture import picture
from tests.browser.notebook import write
from tests.figures import traces

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

START = "import labkit\nlab = labkit.start(3)"
TRACED = """%%px --trace
import time
x = torch.ones(1000)
time.sleep(0.05 * rank)
dist.all_reduce(x)
if rank == 0: dist.send(x, dst=1)
if rank == 1: dist.recv(x, src=0)"""


def test_a_timeline_answers_the_mouse_and_the_keys(notebook, page, screenshot):
    opened = notebook(START, TRACED, "lab.last.trace.table()", "lab.last.trace.critical_path()")
    opened.run(0)
    opened.run(1)
    drawn = opened.code(1).locator(".labkit-timeline")
    time = drawn.locator("svg.time")
    bars = drawn.locator("g[aria-label*='all_reduce']")
    bars.first.dispatch_event("mousemove")
    told = page.locator(".labkit-tip").inner_text()
    assert "rank 0: all_reduce of ranks 0, 1, 2, 4 kB of float32" in told
    assert "waited" in told and "line 5: dist.all_reduce(x)" in told
    screenshot("hovered")
    drawn.locator(".message").first.dispatch_event("mousemove")
    assert "message from rank 0 to rank 1, 4 kB" in page.locator(".labkit-tip").inner_text()
    whole = time.get_attribute("viewBox")
    time.focus()
    page.keyboard.press("+")
    assert float(time.get_attribute("viewBox").split()[2]) == float(whole.split()[2]) / 2
    drawn.get_by_label("zoom out").click()
    assert time.get_attribute("viewBox") == whole
    for number in (2, 3):
        opened.run(number)
        assert opened.code(number).locator("table").is_visible()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        opened.theme(theme)
        ink = drawn.locator("figcaption").evaluate("e => getComputedStyle(e).color")
        behind = page.evaluate(
            "getComputedStyle(document.querySelector('.jp-NotebookPanel')).backgroundColor"
        )
        assert contrast(rgb(ink), rgb(behind)) >= 4.5
        for width in (1024, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(300)
            drawn.scroll_into_view_if_needed()
            screenshot(f"{theme.split()[1]}-{width}")
            assert drawn.evaluate("e => e.scrollWidth <= e.parentElement.clientWidth + 1")


def rgb(css):
    return tuple(int(part) / 255 for part in css[css.index("(") + 1 : -1].split(",")[:3])


def test_where_nothing_is_trusted_a_picture_stands_for_it(notebook, server, page, screenshot, monkeypatch):
    monkeypatch.setenv("LABKIT_LIVE", "1")
    made = traces.straggler(3).plot("Ranks wait for rank 1")
    made.page, html = None, made.page(picture([made])[0])
    cell = nbformat.v4.new_code_cell("trace.plot()", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/html": html}, execution_count=1)]
    stored = nbformat.read(server.root / write(server.root, "untrusted.ipynb"), as_version=4)
    stored.cells = [cell]
    nbformat.write(stored, server.root / "untrusted.ipynb")
    opened = notebook(name="untrusted.ipynb")
    image = opened.code(0).locator("img")
    assert image.is_visible() and image.get_attribute("alt") == "Ranks wait for rank 1"
    assert image.evaluate("i => i.complete && i.naturalWidth") > 300
    screenshot("untrusted")


PERFETTO = """<script>addEventListener('message', ({ data, source, origin }) => {
    if (data === 'PING') source.postMessage('PONG', origin);
    else document.body.textContent = new TextDecoder().decode(data.perfetto.buffer);
})</script><body></body>"""
"""What Perfetto's page does when it is asked to open a trace, by its documentation."""


@pytest.mark.parametrize("network", [True, False], ids=["a network", "no network"])
def test_the_button_opens_the_trace_in_perfetto_or_gives_the_file(notebook, page, network):
    answer = (
        (lambda r: r.fulfill(body=PERFETTO, content_type="text/html")) if network else lambda r: r.abort()
    )
    page.context.route("https://ui.perfetto.dev/**", answer)
    opened = notebook(START, TRACED)
    opened.run(0)
    opened.run(1)
    button = opened.code(1).locator("button[data-do=perfetto]")
    if network:
        with page.expect_popup() as there:
            button.click()
        there.value.locator("body", has_text="traceEvents").wait_for()
        told = there.value.locator("body").inner_text()
    else:
        with page.expect_download() as file:
            button.click()
        assert file.value.suggested_filename == "trace.json"
        assert "in your downloads" in opened.code(1).locator(".tools output").inner_text()
        told = Path(file.value.path()).read_text()
    assert any(event.get("name") == "all_reduce" for event in json.loads(told)["traceEvents"])


def test_an_animation_plays_after_a_reload(notebook, page, screenshot):
    opened = notebook(name="06_all_reduce_in_a_ring.ipynb")
    moving = opened.panel.locator("img[alt^='Animation: A ring of four']")
    for _ in range(2):
        moving.scroll_into_view_if_needed()
        wide = "i => i.complete && i.naturalWidth > 100"
        opened.until(lambda: moving.evaluate(wide), "the animation")  # noqa: B023
        page.wait_for_timeout(200)
        first = moving.screenshot()
        opened.until(lambda: moving.screenshot() != first, "another step")  # noqa: B023
        page.reload()
        opened.panel.locator(".jp-Cell").first.wait_for()
    screenshot("moving")
