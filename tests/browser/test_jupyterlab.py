"""What a learner does in JupyterLab, done in JupyterLab."""

import json

import nbformat
import psutil
import pytest

from labkit.launch import living
from labkit.launch.shared import SERVER

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

START = "import labkit\nlab = labkit.start(4)"
OWN_START = f"import os\nos.environ.pop('{SERVER}')  # the lab is this kernel's own\n{START}"
PIDS = "print([r.pid for r in lab.ranks])"


def pids(output: str) -> list[int]:
    return json.loads(output[output.index("[") : output.index("]") + 1])


def test_a_lesson_runs_from_top_to_bottom(notebook, server, screenshot):
    name = "00_meet_the_ranks.ipynb"
    stored = [c for c in nbformat.read(server.root / name, 4).cells if c.cell_type == "code"]
    lesson = notebook(name=name)
    lesson.menu("Edit", "Clear Outputs of All Cells")
    lesson.until(lambda: not lesson.has_run(0), "empty cells")
    lesson.run_all()
    lesson.until(lambda: lesson.has_run(len(stored) - 1), "the last cell", within=120)
    for number, cell in enumerate(stored):
        announced = "raises-exception" in cell.metadata.get("tags", [])
        assert lesson.failed(number) == announced, lesson.output(number)
    drawn = [output for cell in stored for output in cell.outputs if "image/png" in output.get("data", ())]
    pictures = lesson.panel.locator(".jp-OutputArea-output img").all()
    assert len(pictures) == len(drawn) > 0
    for number, picture in enumerate(pictures):
        assert picture.evaluate("i => i.complete && i.naturalWidth") > 300
        timeline = picture.locator("xpath=ancestor::*[contains(@class, 'labkit-timeline')]")
        picture = timeline if timeline.count() else picture  # the picture is there for pages without scripts
        picture.scroll_into_view_if_needed()
        screenshot(f"figure-{number}")
    broken = next(number for number in range(len(stored)) if lesson.failed(number))
    lesson.code(broken).scroll_into_view_if_needed()
    screenshot("deadlock")


def test_output_appears_while_a_cell_runs(notebook, screenshot):
    code = (
        "%%px\nimport time\nfor i in range(100):\n    print('step', i, 'of rank', rank)\n    time.sleep(0.1)"
    )
    opened = notebook(START, code)
    opened.run(0)
    opened.start(1)
    opened.until(lambda: "step 5 of rank 3" in opened.output(1), "live output")
    assert opened.is_running(1), "it came when the cell had ended"
    screenshot("live")
    opened.until(lambda: opened.has_run(1), "the end")
    assert "step 99 of rank 3" in opened.output(1) and "-- " not in opened.output(1)


def test_stop_ends_a_cell_and_a_deadlock_ends_itself(notebook, screenshot):
    endless = "%%px\nx = torch.zeros(1)\nwhile rank == 0:\n    sum(range(100))\ndist.recv(x, src=0)"
    opened = notebook(
        START,
        endless,
        "%%px\ndist.barrier()\n'after stop'",
        "%%px\ndist.recv(x, src=0)",
        "%%px\n'still here'",
    )
    opened.run(0)
    opened.start(1)
    opened.until(lambda: "waits in recv from rank 0" in opened.output(1), "what the ranks do")
    screenshot("waiting")
    opened.stop()
    opened.until(lambda: opened.has_run(1), "the stopped cell's end")
    assert "interrupted" in opened.output(1)
    assert "[ranks 0-3] 'after stop'" in opened.run(2)
    assert "deadlock" in opened.run(3)
    screenshot("verdict")
    assert "[ranks 0-3] 'still here'" in opened.run(4)


def test_a_kernel_restart_leaves_no_rank_of_its_own_alive(notebook):
    opened = notebook(OWN_START, PIDS)
    opened.run(0)
    ranks = [psutil.Process(pid) for pid in pids(opened.run(1))]
    assert len(ranks) == 4 and all(map(living.is_alive, ranks))
    opened.restart()
    opened.until(lambda: not any(map(living.is_alive, ranks)), "the end of the ranks")


def test_notebooks_share_the_lab_and_the_last_to_start_has_it(notebook, chromium, screenshot):
    first = notebook(START, PIDS, "%%px\nmine = rank")
    first.run(0)
    ranks = pids(first.run(1))
    assert "Error" not in first.run(2)
    page = chromium.new_page()
    second = notebook(START, PIDS, "%%px\n'mine' in globals()", on=page)
    second.run(0)
    assert pids(second.run(1)) == ranks and "[ranks 0-3] False" in second.run(2)
    page.close()
    refused = first.run(2)
    assert "has had them since" in refused and "labkit.start() takes them back" in refused
    screenshot("refused")
    first.run(0)
    assert pids(first.run(1)) == ranks and "Error" not in first.run(2)
    first.restart()
    first.run(0)
    assert pids(first.run(1)) == ranks, "a shared lab outlives the kernel"


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_view_and_figure_are_drawn(notebook, screenshot, theme):
    opened = notebook(
        START,
        "lab.view()",
        "%%px --targets 0\nimport matplotlib.pyplot as plt\n_ = plt.plot([1, 4, 9]); plt.show()",
        "%%px\nimport time\nfor i in range(100): time.sleep(0.1) if rank == 2 else None\ndist.barrier()",
        "%%px\nx = torch.ones(3) + (rank == 1)",
        "lab.compare('x')",
        "lab",
    )
    opened.theme(theme)
    for number in (0, 1, 2):
        opened.run(number)
    tiles = opened.code(1).locator(".labkit-tile")
    opened.until(lambda: tiles.count() == 4, "four tiles")
    assert "MB" in tiles.nth(0).inner_text() and "ready" in tiles.nth(0).inner_text()
    opened.start(3)
    waiting = opened.code(1).locator(".labkit-tile[data-state='waiting']")
    opened.until(lambda: waiting.count() == 3, "three tiles that wait")
    assert "barrier" in waiting.first.inner_text() and opened.is_running(3)
    screenshot("waiting")
    for number in (4, 5, 6):
        opened.run(number)
    ready = opened.code(1).locator(".labkit-tile[data-state='ready']")
    opened.until(lambda: ready.count() == 4, "tiles at rest")
    image = opened.code(2).locator("img")
    assert image.evaluate("i => i.complete && i.naturalWidth") > 200
    opened.code(5).scroll_into_view_if_needed()
    screenshot("compare")


def test_the_front_page_is_open_and_leads_to_the_lessons(page, server, screenshot):
    page.goto(server.url(""))
    table = page.locator(".jp-MarkdownViewer:visible table")
    table.wait_for(timeout=60_000)
    assert table.locator("tbody tr").count() == len(list(server.root.glob("[0-9][0-9]_*.ipynb")))
    screenshot("open")
    table.get_by_text("Send a tensor").click()
    lesson = page.locator(".jp-NotebookPanel:visible .jp-RenderedMarkdown")
    lesson.get_by_text("What does a message cost").first.wait_for()
