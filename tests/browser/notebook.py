"""A notebook open in a JupyterLab page, driven as a person drives it: by its buttons and menus."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat

CELL_WITHIN = 60.0  # seconds, on a busy machine
SWALLOWED = 10.0  # seconds after which a key that did nothing will do nothing


class Notebook:
    def __init__(self, page, server, name: str, *, is_open: bool = False):
        self.page, self.server, self.name = page, server, name
        if not is_open:
            page.goto(server.url(self.address()))
        self.panel = page.locator(".jp-NotebookPanel:visible")
        self.panel.locator(".jp-Cell").first.wait_for(timeout=60_000)
        self.page.evaluate("() => window.jupyterapp?.restored.then(() => true)")  # from then on it hears keys
        self.until(lambda: self._kernel() == "idle", "an idle kernel")

    def address(self) -> str:
        return f"lab/workspaces/{Path(self.name).stem}-{time.monotonic_ns()}/tree/{self.name}"

    def code(self, number: int):
        """The code cell of that number, from 0."""
        return self.panel.locator(".jp-CodeCell").nth(number)

    def output(self, number: int) -> str:
        return "\n".join(self.code(number).locator(".jp-OutputArea-output").all_inner_texts())

    def is_running(self, number: int) -> bool:
        return "*" in self._prompt(number)

    def has_run(self, number: int) -> bool:
        return any(character.isdigit() for character in self._prompt(number))

    def start(self, number: int) -> None:
        """Run one cell by its key, and wait until it runs; a page that still loads swallows the key."""
        before, pressed = self._prompt(number), -math.inf

        def started() -> bool:
            nonlocal pressed
            if self._prompt(number) != before:
                return True
            if time.monotonic() - pressed > SWALLOWED:
                editor = self.code(number).locator(".cm-content").first
                editor.click()
                editor.press("Control+Enter")
                pressed = time.monotonic()
            return False

        self.until(started, f"cell {number} to start")

    def run(self, number: int) -> str:
        self.start(number)
        return self.finished(number)

    def finished(self, number: int) -> str:
        """Wait for the end of a cell that was started; its output."""
        self.until(lambda: self.has_run(number), f"cell {number} to end")
        self.until(lambda: self._kernel() == "idle", "the cell's last output")  # comes before that state
        return self.output(number)

    def screens(self) -> Iterator[int]:
        """Scroll from the first cell to the last, a screen at a time; the number of each screen."""
        scrolled = self.panel.locator(".jp-WindowedPanel-outer")
        scrolled.evaluate("s => s.scrollTo(0, 0)")
        top, height = scrolled.evaluate("s => [s.getBoundingClientRect().top, s.clientHeight]")
        last = self.panel.locator(".jp-Cell").last.bounding_box()
        for number in range(math.ceil((last["y"] + last["height"] - top) / height)):
            scrolled.evaluate("(s, top) => s.scrollTo(0, top)", number * height)
            self.page.wait_for_timeout(100)  # until it is drawn
            yield number

    def press_on(self) -> None:
        """Run the cell that has the focus, of either kind, by its key; the next one has the focus then."""
        self.page.keyboard.press("Shift+Enter")

    def focused(self) -> int:
        """The number of the cell that has the focus, from 0, text counted too."""
        cells = self.panel.locator(".jp-Notebook .jp-Cell")
        return cells.evaluate_all("all => all.findIndex(cell => cell.matches('.jp-mod-active'))")

    def failed(self, number: int) -> bool:
        """Whether the output of a code cell is shown as an error."""
        errors = self.code(number).locator("[data-mime-type='application/vnd.jupyter.stderr']")
        return errors.count() > 0

    def command(self, label: str) -> None:
        """Give an order by its name, in the palette that a key opens."""
        self.page.keyboard.press("Control+Shift+C")
        asked = self.page.locator(".jp-ModalCommandPalette input")
        asked.wait_for()
        self.page.keyboard.type(label)
        self.page.locator(".lm-CommandPalette-item.lm-mod-active").get_by_text(label).wait_for()
        self.page.keyboard.press("Enter")
        asked.wait_for(state="hidden")

    def run_all(self) -> None:
        self.menu("Run", "Run All Cells")

    def stop(self) -> None:
        self.panel.get_by_title("Interrupt the kernel").click()

    def restart(self) -> None:
        self.panel.get_by_title("Restart the kernel", exact=True).click()
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.wait_for_timeout(1000)  # until then the old kernel's state is shown
        self.until(lambda: self._kernel() == "idle", "a new kernel")

    def menu(self, *labels: str) -> None:
        self.page.locator(".lm-MenuBar").get_by_text(labels[0], exact=True).click()
        for label in labels[1:]:
            self.page.locator(".lm-Menu").get_by_text(label, exact=True).last.click()

    def theme(self, name: str) -> None:
        self.page.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{theme: '{name}'}})")
        self.page.locator(f"body[data-jp-theme-name='{name}']").wait_for(state="attached")

    def until(self, happened, what: str, within: float = CELL_WITHIN) -> float:
        """Wait until `happened()`; returns the seconds that it took."""
        start = time.monotonic()
        while not happened():
            waited = time.monotonic() - start
            assert waited < within, f"waited {within:.0f} s for {what}; the page says:\n{self.text()}"
            self.page.wait_for_timeout(50)  # lets the page's events through
        return time.monotonic() - start

    def text(self) -> str:
        return self.panel.inner_text()[-4000:]

    def _prompt(self, number: int) -> str:
        return self.code(number).locator(".jp-InputPrompt").first.inner_text()

    def _kernel(self) -> str:
        return "idle" if self.page.locator("#jp-main-statusbar").get_by_text("| Idle").count() else "busy"


class Notebook7(Notebook):
    """The same in Jupyter Notebook 7, which has a page for each notebook, and no status bar."""

    def address(self) -> str:
        return f"notebooks/{self.name}"

    def _kernel(self) -> str:
        return self.panel.locator(".jp-Notebook-ExecutionIndicator").get_attribute("data-status")


def write(folder: Path, name: str, *cells: str) -> str:
    """A notebook of these code cells, not yet run."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, folder / name)
    return name
