"""The course's front page: a table of the lessons in a folder, opened when JupyterLab starts.

It is a Markdown file made from the lessons' own headers, so that it cannot say anything else than they do.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import labkit
from labkit.launch import private

NAME = "index.md"
LESSONS = "[0-9][0-9]_*.ipynb"
_INSTALLED = "share/labkit/notebooks/*.ipynb"
_WIDGET = f"markdownviewer-widget:{NAME}"
_LEFT = {
    "collapsed": False,
    "visible": True,
    "current": "running-sessions",
    "widgets": ["filebrowser", "running-sessions"],
}
_ABOVE = """# Learn distributed deep learning on real ranks

Open a lesson, then run its cells from top to bottom; the first one starts the ranks."""
_BELOW = """\
- **What is running** is in the panel *Running Terminals and Kernels* at the left. All notebooks
  share one set of ranks; the one that called `labkit.start` last has it. It ends with JupyterLab, or after an
  hour without a cell.
- **See the ranks at work**: run `lab.view()`, right-click what appears, *Create New View for Output*.
- **Something hangs?** The stop button ends a cell, `lab.restart()` gives new ranks, `labkit stop` in a
  terminal ends all of them."""


@dataclass(frozen=True)
class Lesson:
    """What a lesson's first cell says about it. `minutes` and `needs` are as written there."""

    file: str
    title: str
    question: str
    minutes: str
    needs: str


def lessons(folder: Path) -> tuple[Lesson, ...]:
    """The lessons in a folder, in the order of the course; a file that is no notebook is none."""
    return tuple(lesson for path in sorted(folder.glob(LESSONS)) if (lesson := _lesson(path)))


def unreadable(folder: Path) -> list[str]:
    """The files there that are called like a lesson and are no notebook, as a full disk leaves them."""
    return [path.name for path in sorted(folder.glob(LESSONS)) if not _lesson(path)]


def page(found: Sequence[Lesson], progress: Mapping[str, str] | None = None) -> str:
    """The front page as Markdown. `progress` says for a lesson's file how far the learner has come."""
    names = ["", "lesson", "question", "minutes", "needs", *(["progress"] if progress else [])]
    rows = [names, ["---"] * len(names)]
    for lesson in found:
        link = f"[{lesson.title}]({lesson.file})"
        row = [lesson.file[:2], link, lesson.question, lesson.minutes, lesson.needs]
        rows.append([*row, progress.get(lesson.file, "")] if progress else row)
    return "\n\n".join([_ABOVE, "\n".join(f"| {' | '.join(row)} |" for row in rows), _BELOW]) + "\n"


def write(folder: Path) -> bool:
    """Make the front page of this folder; False if a file of that name is there that is somebody else's."""
    file = folder / NAME
    if file.exists() and not _is_ours(file.read_text(encoding="utf-8", errors="replace")):
        return False
    private.write(file, page(lessons(folder)))
    return True


def _is_ours(text: str) -> bool:
    return text.startswith(_ABOVE) and text.endswith(f"{_BELOW}\n")


def provide_lessons(folder: Path) -> None:
    """Copy the installed lessons that are missing here, into a folder that is empty or has some of them.

    A lesson that is there stays as the learner left it; a folder of other things, or of other notebooks, is
    left alone.
    """
    installed = _installed()
    visible = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if visible and not visible & {source.name for source in installed}:
        return
    for source in installed:
        if source.name not in visible:
            private.write(folder / source.name, source.read_text(encoding="utf-8"))


def open_in(workspace: dict) -> dict:
    """A JupyterLab workspace in which the front page is the tab in front, other tabs as they were."""
    data = dict(workspace.get("data", {}))
    layout = data.get("layout-restorer:data", {})
    main = layout.get("main", {})
    dock = main.get("dock") or {"type": "tab-area", "currentIndex": 0, "widgets": []}
    area = dock
    while area["type"] != "tab-area":
        area = area["children"][0]
    if _WIDGET not in json.dumps(dock):
        area["widgets"].append(_WIDGET)
    if _WIDGET in area["widgets"]:
        area["currentIndex"] = area["widgets"].index(_WIDGET)
    layout = layout or {"left": _LEFT, "relativeSizes": [0.2, 0.8, 0]}
    data["layout-restorer:data"] = layout | {"main": main | {"dock": dock, "current": _WIDGET}}
    data[_WIDGET] = {"data": {"path": NAME, "factory": "Markdown Preview"}}
    return workspace | {"data": data}


def _installed() -> list[Path]:
    """The lessons of this installation: from the wheel, or from the clone that it was installed from."""
    clone = Path(labkit.__file__).parents[1] / "notebooks"
    if clone.is_dir():
        return sorted(clone.glob(LESSONS))
    files = metadata.files("labkit") or ()
    return sorted(Path(file.locate()).resolve() for file in files if file.match(_INSTALLED))


def _lesson(path: Path) -> Lesson | None:
    try:
        first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    except (ValueError, LookupError, TypeError):
        return None
    title = re.search(r"^# (.+)$", first, re.M)
    about = dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", first, re.M))
    told = (about.get(name, "") for name in ("Question", "Minutes", "Needs"))
    return Lesson(path.name, title[1] if title else path.stem, *told)
