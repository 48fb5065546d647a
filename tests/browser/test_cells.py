"""What a cell of the ranks looks like, and answers to somebody who types in it, in JupyterLab."""

import pytest

from tests.browser.test_jupyterlab import START

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

RICH = """%%px
import warnings
from IPython.display import HTML, Markdown, SVG, display
print("printed by", rank)
warnings.warn("careful")
display(HTML(f"<table><tr><td>table of {rank}</td></tr></table>"), Markdown("**bold**"))
display(SVG(f'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="{30 + rank}">'
            '<rect width="90" height="20" fill="teal"/></svg>'))
"""


def test_tab_completes_names_of_the_ranks(notebook, screenshot):
    opened = notebook(START, "%%px\nlearning_rate = 0.1\nimport time\ntime.sleep(5 * rank)", "%%px\n")
    opened.run(0)
    opened.run(1)
    offered = opened.page.locator(".jp-Completer-item:visible")
    for when in ("idle", "busy"):
        if when == "busy":
            opened.start(1)
        editor = opened.code(2).locator(".cm-content").first
        editor.click()
        opened.page.keyboard.press("Control+End")
        opened.page.keyboard.type("learning_r")
        opened.page.keyboard.press("Tab")
        opened.until(lambda: "learning_rate" in "".join(offered.all_inner_texts()), "the offer", within=20)
        assert opened.is_running(1) == (when == "busy")
        screenshot(when)
        opened.page.keyboard.press("Enter")
        assert opened.code(2).inner_text().count("learning_rate") == 1 + (when == "busy")
        opened.page.keyboard.type(" = 1\n")
    opened.finished(1)  # or the next notebook could not have the ranks


def test_what_ranks_display_is_drawn(notebook, screenshot):
    opened = notebook(START, RICH)
    opened.run(0)
    opened.run(1)
    opened.until(lambda: "bold" in opened.output(1), "Markdown, which is drawn last")
    told = opened.output(1)
    assert told.index("table of 0") < told.index("table of 3") and "[ranks 0-3]" in told
    assert "In [2]:5: UserWarning" in told
    apart = opened.code(1).locator(".labkit-stderr").first
    plain = opened.code(1).locator(".labkit-stdout").first
    look = "e => getComputedStyle(e).backgroundColor"
    assert "careful" in apart.inner_text() and apart.evaluate(look) != plain.evaluate(look)
    pictures = opened.code(1).locator("figure img").all()
    wide = "i => i.complete && i.naturalWidth"
    opened.until(lambda: [p.evaluate(wide) for p in pictures] == [90] * 4, "the four pictures")
    assert [p.get_attribute("alt") for p in pictures] == [f"picture of rank {r}" for r in range(4)]
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        opened.theme(theme)
        screenshot(theme.replace(" ", "-"))


STOPPED = """%%px
loss = torch.tensor(rank + 1.0)
if rank == 2:
    breakpoint()
dist.all_reduce(loss)
loss
"""


def test_a_stopped_rank_is_asked_in_the_page(notebook, screenshot):
    opened = notebook(START, STOPPED)
    opened.run(0)
    opened.start(1)
    field = opened.code(1).locator(".jp-Stdin-input").last  # that of the answer before may still be there
    for typed, told in (
        ("p loss", "tensor(3.)"),
        ("rank 0", "rank 0 has not stopped: it is waiting"),
        ("go", "10."),
    ):
        field.wait_for()
        field.fill(typed)
        field.press("Enter")
        opened.until(lambda told=told: told in opened.output(1), f"{told} after {typed}")
        if typed == "p loss":
            field.wait_for()
            screenshot("asked")
    assert "line 4: breakpoint()" in opened.finished(1)
    screenshot("over")


DEADLOCK = """%%px
x, y = torch.ones(1), torch.ones(1)
dist.all_reduce(x)
if rank == 3:
    work = dist.isend(x, dst=0)
if rank == 0:
    dist.barrier()
    dist.recv(y, src=3)
elif rank < 3:
    dist.recv(y, src=rank - 1)
"""


def test_a_deadlock_is_gone_back_through(notebook, screenshot):
    opened = notebook(START, DEADLOCK, "lab.last.history")
    opened.run(0)
    assert "deadlock" in opened.run(1)
    opened.run(2)
    slider = opened.code(2).locator("input[type=range]")
    slider.wait_for()
    where = opened.code(2).locator(".labkit-where")
    listed = opened.code(2).locator(".labkit-list")
    assert where.inner_text().startswith("step 2 of 3 · from step 2 on ranks 0-2 could never go on")
    assert "message from 3 to 0" in listed.inner_text() and "waits for ever" in listed.inner_text()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        opened.theme(theme)
        screenshot(theme.replace(" ", "-"))
    slider.focus()
    opened.page.keyboard.press("Home")
    opened.until(lambda: where.inner_text() == "step 1 of 3", "the first step, by the keyboard")
    assert listed.inner_text().count("all_reduce number") == 4
    boxes = opened.code(2).locator("svg rect[data-now=true]")
    assert boxes.count() == 4
    screenshot("first")
