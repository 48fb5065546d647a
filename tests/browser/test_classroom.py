"""The teacher's page in a real browser: it keeps up with what learners share, and shows it as text."""

import json
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import requests

from labkit.commands.classroom.tally import ANOTHER
from labkit.exercises.catalogue import LESSONS
from labkit.exercises.sharing import FILE
from tests import hub
from tests.waiting import until

FIRST = LESSONS[0].exercises[0].name


@pytest.fixture
def address(tmp_path):
    """Where `labkit class` serves the folder `class`."""
    (tmp_path / "class").mkdir()
    command = [sys.executable, "-m", "labkit.commands", "class", tmp_path / "class", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()


def share(folder, name: str, mistake: str) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / FILE).write_text(json.dumps({"exercises": {FIRST: mistake}}))


@pytest.mark.browser
def test_the_page_keeps_up(page, address, tmp_path, screenshot):
    page.goto(address)
    page.get_by_text("0 learners share").wait_for()
    share(tmp_path / "class", "ada", "")
    share(tmp_path / "class", "grace", "deadlock")
    page.get_by_text("2 learners share").wait_for()
    row = page.locator("tbody tr").filter(has_text=FIRST)
    assert row.locator("td").all_inner_texts()[2:] == ["2", "1", "1 × deadlock"]
    assert page.locator("#next").inner_text() == ""
    share(tmp_path / "class", "alan", "deadlock")
    page.get_by_text(f"To explain next: in {FIRST} (lesson 00), 2 are at “deadlock”.").wait_for()
    screenshot("class")
    share(tmp_path / "class", "grace", "")
    page.get_by_text("1 × deadlock").wait_for()
    assert "ada" not in page.content(), "it counts, and names nobody"


@pytest.mark.browser
def test_what_a_learner_writes_is_text(page, address, tmp_path):
    said = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    share(tmp_path / "class", "mallory", "<img src=x onerror=alert(1)>")
    page.goto(address)
    page.get_by_text(f"1 × {ANOTHER}").wait_for()
    assert said == [] and page.locator("table img").count() == 0


def test_it_is_for_who_has_its_address(address):
    with urlopen(address, timeout=30) as answer:
        assert answer.status == 200
    page = address.partition("?")[0]
    for other in (page, f"{page}tally", f"{page}?token=guessed", f"{page}tally?token="):
        with pytest.raises(HTTPError, match="403"):
            urlopen(other, timeout=30)


@pytest.mark.browser
@pytest.mark.timeout(400)
def test_at_a_hub_the_teacher_sees_it_and_a_learner_does_not(chromium, tmp_path, screenshot):
    with hub.up(tmp_path) as running:
        class_page = running.url.replace("//", "//class--service.") + "/services/class/"
        assert until(lambda: _answers(running.url)), running.said()

        def log_in(name: str, password: str):
            page = chromium.new_context().new_page()
            page.set_default_timeout(60_000)
            page.goto(class_page)
            page.get_by_label("Username").fill(name)
            page.get_by_label("Password").fill(password)
            page.get_by_role("button", name="Sign in").click()
            return page

        teacher = log_in("teacher", hub.TEACHERS_PASSWORD)
        teacher.get_by_text("0 learners share").wait_for()
        share(running.folder / "class", "ada", "deadlock")
        teacher.get_by_text("1 learner shares").wait_for()
        learner = log_in("ada", hub.PASSWORD)
        learner.get_by_text("403").first.wait_for()
        assert "learner shares" not in learner.content()


def _answers(hub_url: str) -> bool:
    """Whether the class's page is up: asked by its name, which this machine's own resolver may not know."""
    host = hub_url.replace("//", "//class--service.").partition("//")[2]
    return requests.get(f"{hub_url}/services/class/", headers={"Host": host}, timeout=30).ok
