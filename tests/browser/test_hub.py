"""Two learners at a hub, each in a browser of their own, each with lesson 00 and a lab."""

import json

import nbformat
import pytest

from tests import hub
from tests.browser.notebook import Notebook
from tests.browser.server import SETTINGS
from tests.lessons import lesson
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
NAMES = ("ada", "grace")
CELLS = [cell for cell in nbformat.read(lesson("00"), as_version=4).cells if cell.cell_type == "code"]


class TheirServer:
    """The server of one learner, as `Notebook` asks for its pages."""

    def __init__(self, url: str, name: str):
        self._url = f"{url}/user/{name}"

    def url(self, path: str) -> str:
        return f"{self._url}/{path}"


@pytest.fixture
def running(tmp_path):
    with hub.up(tmp_path) as found:
        for name in NAMES:
            for setting, values in SETTINGS.items():
                folder = found.folder / "homes" / name / ".jupyter" / "lab" / "user-settings" / "@jupyterlab"
                file = folder / f"{setting}.jupyterlab-settings"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(values))
        yield found


def log_in(chromium, running, name: str):
    """A browser in which that learner has come as far as the front page."""
    page = chromium.new_context(viewport={"width": 1280, "height": 1100}).new_page()
    page.set_default_timeout(120_000)
    page.goto(running.url)
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(hub.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/user/{name}/lab/**")
    page.locator(".jp-MarkdownViewer:visible").get_by_text("Learn distributed deep learning").wait_for()
    return page


def test_two_learners_run_lesson_00_and_nothing_is_left(chromium, running):
    pages = {name: log_in(chromium, running, name) for name in NAMES}
    lessons = {
        name: Notebook(page, TheirServer(running.url, name), lesson("00").name)
        for name, page in pages.items()
    }
    for number, cell in enumerate(CELLS):
        for opened in lessons.values():  # both at once
            opened.start(number)
        for opened in lessons.values():
            opened.finished(number)
            assert opened.failed(number) == ("raises-exception" in cell.metadata.get("tags", [])), number
    for name, page in pages.items():
        assert "4 ranks" in page.locator(".labkit-status").inner_text()
        assert sum("forkserver" in " ".join(each.cmdline()) for each in running.of(name)) >= 4
        other = next(other for other in NAMES if other != name)
        page.goto(f"{running.url}/user/{other}/lab")
        page.get_by_text("403").first.wait_for()
    running.end()
    assert until(lambda: not running.left()), running.left()
    assert list(running.temporary.iterdir()) == [] and running.groups() == []
    assert {path.name for path in running.folder.iterdir()} <= {"homes", "class", "log"}
