"""Two learners at a hub, each in a browser of their own, with lesson 00 and a lab; what a teacher sees."""

import json
from pathlib import Path

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


MINE = Path(__file__).with_name("hub_page.html").read_text()
"""A page of a learner's, with a script in it."""


class TheirServer:
    """The server of one learner, as `Notebook` asks for its pages."""

    def __init__(self, url: str, name: str):
        self._url = f"{site(url, name)}/user/{name}"

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


def site(url: str, name: str) -> str:
    """Where a hub has that learner's pages."""
    return url.replace("//", f"//{name}.")


def signed_in(chromium, running, name: str, password: str, then: str = ""):
    """A browser in which somebody has just logged in at the hub."""
    page = chromium.new_context(viewport={"width": 1280, "height": 1100}).new_page()
    page.set_default_timeout(120_000)
    page.goto(running.url + then)
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    return page


def log_in(chromium, running, name: str):
    """A browser in which that learner has come as far as the front page."""
    page = signed_in(chromium, running, name, hub.PASSWORD)
    page.wait_for_url(f"{site(running.url, name)}/user/{name}/lab/**")
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
        page.goto(f"{site(running.url, other)}/user/{other}/lab")
        page.get_by_text("403").first.wait_for()
    running.end()
    assert until(lambda: not running.left()), running.left()
    assert list(running.temporary.iterdir()) == [] and running.groups() == []
    assert {path.name for path in running.folder.iterdir()} <= {"homes", "class", "log"}


@pytest.mark.parametrize("accounts", [(), ("ada",)], ids=["made up", "accounts"])
def test_a_page_of_a_learner_does_nothing_in_the_name_of_the_teacher_who_opens_it(
    chromium, tmp_path, accounts
):
    """Whatever makes the learner's server show it: a browser sees a page of that site, with a script."""
    with hub.up(tmp_path, **({"accounts": accounts} if accounts else {})) as running:
        ada = running.learner("ada")
        list(ada.start())
        password = hub.PASSWORD if accounts else hub.TEACHERS_PASSWORD
        page = signed_in(chromium, running, "teacher", password, "/hub/login?next=/hub/home")
        page.wait_for_url("**/hub/home")
        mine = {"body": MINE.replace("HUB", running.url), "content_type": "text/html"}
        page.context.route("**/user/ada/mine", lambda route: route.fulfill(**mine))
        page.goto(f"{ada.server}/mine")
        page.get_by_role("button").click()
        page.get_by_text("done").wait_for()
        said = dict(line.split() for line in page.locator("pre").inner_text().splitlines()[:-1])
        assert set(said.values()) <= {"TypeError", "SecurityError", "sent"}, said
        teacher = running.learner("teacher", password)
        known = {user["name"]: user["admin"] for user in teacher.hub_api("GET", "users").json()}
        assert known == {"ada": False, "teacher": True}
