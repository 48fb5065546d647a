"""What the documentation says of screens, options and messages is what is there."""

import re
from pathlib import Path

import nbformat
import pytest
from IPython.utils.capture import capture_output
from jupyterlab.commands import get_app_dir

import labkit
from labkit.commands.__main__ import COMMANDS
from labkit.commands.page import HERE
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from labkit.lab.stub import NoLab
from labkit.trace import Trace

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), ROOT / "notebooks" / "README.md", *(ROOT / "cluster").rglob("*.md")]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CODE = {path: path.read_text() for path in sorted((ROOT / "labkit").rglob("*.py"))}
PROGRAMS = (path for path in (ROOT / "cluster").glob("*/*[a-z]") if path.is_file())
MAKEFILES = "".join(path.read_text() for path in (ROOT / "Makefile", *PROGRAMS))
LABEL = re.compile(r"(?<![*\w])\*((?:labkit: )?[A-Z][a-z]+(?: [A-Za-z]+)+)\*(?!\*)")
NO_LABELS = {
    "From the literature", "Questions at the end", "The same environment at the same path",
    "The same folder for running labs", "A network", "The messages between the ranks are not encrypted",
    "Data Networks",
}  # fmt: skip
"""Of what begins with a capital and is set apart: sections, stresses and books."""
README = (ROOT / "README.md").read_text()


def texts():
    """(where, what) of all that a user reads: pages, lessons, docstrings and the front page."""
    for path in [*PAGES, *CODE]:
        if path.name != "CHANGELOG.md":  # tells of former names too
            yield path.relative_to(ROOT), path.read_text()
    for path in LESSONS:
        cells = nbformat.read(path, as_version=4).cells
        yield path.relative_to(ROOT), "\n\n".join(cell.source for cell in cells)


@pytest.fixture(scope="module")
def on_screen():
    """All that JupyterLab, as it is installed, and labkit's page have to say."""
    scripts = [*Path(get_app_dir(), "static").glob("*.js"), *(HERE / "labextensions").rglob("*.js")]
    return "".join(script.read_text(errors="replace") for script in scripts)


def test_every_menu_item_that_is_named_is_there(on_screen):
    named = {
        (str(where), label)
        for where, text in texts()
        if where.suffix != ".ipynb"  # where what is set apart are titles of papers
        for label in LABEL.findall(text)
    }
    labels = {(where, label) for where, label in named if label not in NO_LABELS}
    assert len(labels) > 3, "or nothing was read"
    missing = {(w, label) for w, label in labels if not re.search(f"[\"'`]{label}[\"'`]", on_screen)}
    assert missing == set()


def test_a_menu_item_that_is_not_there_is_found(on_screen):
    assert '"Create New View for Output"' not in on_screen


def test_every_command_and_variable_that_is_named_exists():
    source = "".join(CODE.values()) + MAKEFILES + "".join(p.read_text() for p in ROOT.glob("tests/*.py"))
    for where, text in texts():
        if where.suffix == ".py":
            continue
        typed = re.findall(r"`labkit ([a-z]+)\b", text)
        for block in re.findall(r"```(?:\w*)\n(.*?)```", text, re.DOTALL):
            typed += re.findall(r"^(?:\$ )?labkit ([a-z]+)\b", block, re.MULTILINE)
        assert set(typed) <= set(COMMANDS), f"{where}: {set(typed) - set(COMMANDS)}"
        for name in re.findall(r"\bLABKIT_[A-Z]+\b", text):
            assert name in source or any(name in p.read_text() for p in ROOT.rglob("tests/*/*.py")), (
                where,
                name,
            )


def test_every_name_that_is_called_exists():
    of = {"labkit": labkit, "lab": Lab, "trace": Trace, "lab.last.trace": Trace}
    on_a_lab = {"last", "ranks", "plan"}  # which a lab has, and its class does not
    for where, text in texts():
        for whose, name in re.findall(r"`(labkit|lab|trace)\.([a-z_]+)\(", text):
            known = hasattr(of[whose], name) or name in on_a_lab
            assert known, f"{where}: {whose}.{name}"


def test_every_option_of_px_that_is_named_exists():
    known = {option for action in PxMagics.cell_px.parser._actions for option in action.option_strings}
    for where, text in texts():
        for line in re.findall(r"%%px((?: --[a-z-]+(?: [\w.,:]+)?)+)", text):
            assert set(re.findall(r"--[a-z-]+", line)) <= known, f"{where}: %%px{line}"


def said(shell, lab, code):
    """What a cell of the README shows on that lab, its error included."""
    line, _, cell = code.removeprefix("%%px").partition("\n")
    with capture_output() as captured:
        try:
            PxMagics(shell, lab).cell_px(line.strip(), cell)
        except CellError as error:
            return f"CellError: {error}"
    return captured.outputs[0].data["text/plain"]


@pytest.mark.slow
def test_the_readme_shows_what_cells_say(labs, shell):
    shown = re.findall(r"```python\n(%%px\n.*?)```\n(?:\n.*?\n)?```\n(.*?)```", README, re.DOTALL)
    assert len(shown) == 2
    lab = labs(4)
    lab.restart()  # collectives are counted from here
    for code, output in shown:
        assert said(shell, lab, code) == output.strip()
    table = re.search(r"```\n(rank  host.*?)```", README, re.DOTALL)[1].strip().splitlines()
    now = repr(lab).splitlines()
    assert table[0].split() == now[0].split() and len(table) == len(now)
    assert [line.split()[3:] for line in table[1:]] == [line.split()[3:] for line in now[1:]]


def test_what_is_told_to_run_can_be_run():
    fix = NoLab.px.__globals__["NO_RANKS"].fix
    assert fix.startswith("import labkit; lab = labkit.start(4)")
