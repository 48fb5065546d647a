"""One Chromium and one JupyterLab server for all browser tests; a page for each."""

import os
import re
import shutil
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil
import pytest

from labkit.launch import processes
from tests.browser.notebook import Notebook, write
from tests.browser.server import Server

SCREENSHOTS = Path(os.environ.get("LABKIT_SCREENSHOTS") or Path(__file__).parent / "screenshots")
FLAGS = [
    "--no-sandbox",  # Chromium refuses to run as root with it
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium():
    """The browser, or a skip that says what is missing."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no chromium on PATH: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(chromium, tmp_path_factory):
    with served(tmp_path_factory.mktemp("jupyterlab")) as running:
        yield running


@contextmanager
def served(folder: Path):
    """`labkit lab` on a folder; when it has ended, so have its ranks."""
    running = Server(folder)
    try:
        yield running.wait()
    finally:
        ranks = [process for lab in running.labs.glob("*") for process in processes.of_lab(lab.name)]
        running.stop()
        _, alive = psutil.wait_procs(ranks, timeout=60)
    assert not alive, "JupyterLab has ended, and a lab of it lives"


@pytest.fixture
def page(chromium, request):
    page = chromium.new_page(viewport={"width": 1280, "height": 1100})
    page.set_default_timeout(60_000)  # a busy machine
    failed = request.session.testsfailed
    yield page
    if request.session.testsfailed > failed:
        keep(page, request, "failed")
    page.close()


@pytest.fixture
def notebook(page, server, request):
    """`notebook(cell, cell, ...)` opens a new notebook of these cells; `notebook(name=...)` a lesson."""

    numbers = count(1)

    def opened(*cells: str, name: str = "", on=None) -> Notebook:
        name = name or write(server.root, f"{name_of(request)}-{next(numbers)}.ipynb", *cells)
        return Notebook(on or page, server, name)

    return opened


@pytest.fixture
def screenshot(page, request):
    """`screenshot("what")` keeps a picture of the page, to be looked at."""
    return lambda what: keep(page, request, what)


def keep(page, request, what: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name_of(request)}-{what}.png")


def name_of(request) -> str:
    """Fit for a file."""
    return re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")
