"""The course's front page: a table of the lessons in a folder, opened when JupyterLab starts.

It is a Markdown file made from the lessons' own headers, so that it cannot say anything else than they do,
and from what the learner has done.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit import LabError
from labkit.commands.lessons import FILES, current_course
from labkit.launch import private

NAME = "index.md"
_WIDGET = f"markdownviewer-widget:{NAME}"
_LEFT = {
    "collapsed": False,
    "visible": True,
    "current": "filebrowser",
    "widgets": ["filebrowser", "running-sessions"],
}
_MADE = re.compile(r"\n<!-- made by labkit lab, which renews it unless it was changed: (\w+) -->\n\Z")
_TITLE = "Learn distributed deep learning on real ranks"
_ABOVE = """# {title}

Open a lesson, then run its cells from top to bottom; the first one starts the ranks."""
_BELOW = """\
- **The ranks** are told in the status bar below, which is also a menu: see what they do, restart them, stop
  them. All notebooks share one set; the one that called `labkit.start` last has it. It ends with
  JupyterLab, or after an hour without a cell.
- **See the ranks at work**: run `lab.view()`, right-click what appears, *Create New View for Cell Output*.
- **Something hangs?** The stop button ends a cell, `lab.restart()` gives new ranks, `labkit stop` in a
  terminal ends all of them.
- **Begin a lesson anew**: *labkit: Put This Lesson Back* in the command palette, or `labkit reset 05` in a
  terminal. What you made of it is kept beside it."""


@dataclass(frozen=True)
class Lesson:
    """What a lesson's first cell says about it. `minutes` and `needs` are as written there."""

    file: str
    title: str
    question: str
    minutes: str
    needs: str

    @property
    def number(self) -> str:
        return self.file[:2]

    def link(self) -> str:
        return f"[{self.title}]({self.file})"


def lessons(folder: Path) -> tuple[Lesson, ...]:
    """The lessons in a folder, in the order of the course; a file that is no notebook is none."""
    return tuple(lesson for path in sorted(folder.glob(FILES)) if (lesson := _lesson(path)))


def unreadable(folder: Path) -> list[str]:
    """The files there that are called like a lesson and are no notebook, as a full disk leaves them."""
    return [path.name for path in sorted(folder.glob(FILES)) if not _lesson(path)]


def page(
    found: Sequence[Lesson],
    progress: Mapping[str, str] | None = None,
    following: str = "",
    title: str = _TITLE,
) -> str:
    """The front page as Markdown, with a mark by which it is known as labkit's own.

    `progress` says for a lesson's number how far the learner has come, `following` with which to go on;
    `title` is the course's.
    """
    names = ["", "lesson", "question", "minutes", "needs", *(["progress"] if progress else [])]
    rows = [names, ["---"] * len(names)]
    for lesson in found:
        row = [lesson.number, lesson.link(), lesson.question, lesson.minutes, lesson.needs]
        told = "**next**" if lesson.number == following else ""
        rows.append([*row, (progress.get(lesson.number) or told)] if progress else row)
    go_on = [
        f"**Continue with {lesson.number}: {lesson.link()}**"
        for lesson in found
        if lesson.number == following
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    text = "\n\n".join([_ABOVE.format(title=title), *(go_on if progress else []), table, _BELOW]) + "\n"
    return f"{text}\n<!-- made by labkit lab, which renews it unless it was changed: {_digest(text)} -->\n"


def write(folder: Path) -> bool:
    """Make the front page of this folder; False if a file of that name is there that is somebody else's."""
    file = folder / NAME
    there = file.read_text(encoding="utf-8", errors="replace") if file.exists() else None
    if there is not None and not _is_ours(there):
        return False
    text = page(lessons(folder), *_progress(), _title())
    if text != there:
        private.write(file, text)
    return True


def _title() -> str:
    course = current_course()
    return course.title if course else _TITLE


def _is_ours(text: str) -> bool:
    mark = _MADE.search(text)
    return bool(mark) and mark[1] == _digest(text[: mark.start()])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _progress() -> tuple[dict[str, str], str]:
    """How far the learner has come in which lesson, and with which to go on; nothing if it is unreadable."""
    from labkit.exercises import progress_file

    try:
        found = progress_file.standings()
    except LabError:
        return {}, ""
    following = progress_file.to_continue(found)
    told = {lesson.number: str(lesson) for lesson in found if str(lesson)}
    return told, following.number if following else ""


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


def _lesson(path: Path) -> Lesson | None:
    try:
        first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    except (ValueError, LookupError, TypeError):
        return None
    title = re.search(r"^# (.+)$", first, re.M)
    about = dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", first, re.M))
    told = (about.get(name, "") for name in ("Question", "Minutes", "Needs"))
    return Lesson(path.name, title[1] if title else path.stem, *told)
