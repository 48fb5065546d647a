"""`labkit lab`: JupyterLab on the lessons, which owns the lab that its notebooks share.

It takes the lab along when it ends: the lab's keeper watches it.
"""

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

import psutil

from labkit.commands import front_page
from labkit.launch import processes
from labkit.launch.shared import SERVER

WORKSPACE = "labkit"
_ROOT = "--ServerApp.root_dir="


def command(arguments: list[str]) -> list[str]:
    """The command that opens JupyterLab; lessons and front page are in place after this."""
    asked = [a.removeprefix(_ROOT) for a in arguments if a.startswith(_ROOT)]
    folder = Path(asked[-1]) if asked else _folder()
    front_page.provide_lessons(folder)
    ours = [] if asked else [f"{_ROOT}{folder}"]
    for name in front_page.unreadable(folder):
        print(f"{name} is no notebook; remove it, and `labkit lab` puts the lesson there", file=sys.stderr)
    if not front_page.lessons(folder):
        print("There are no lessons here; `labkit lab` in an empty folder puts them there", file=sys.stderr)
    elif front_page.write(folder):
        _open_front_page()
        ours.append(f"--LabApp.default_url=/lab/workspaces/{WORKSPACE}")
    else:
        print(f"{front_page.NAME} is yours and stays; the table of lessons is not shown", file=sys.stderr)
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    return [sys.executable, "-m", "jupyterlab", *as_root, *ours, *arguments]


def main(arguments: list[str]) -> NoReturn:
    """Become JupyterLab."""
    run = command(arguments)
    os.environ[SERVER] = processes.identity(psutil.Process())  # execv keeps pid and start time
    os.execv(run[0], run)


def _folder() -> Path:
    """This folder, or the folder of the lessons if this is a clone."""
    clone = Path("notebooks")
    return (clone if any(clone.glob(front_page.LESSONS)) else Path()).resolve()


def _open_front_page() -> None:
    from jupyterlab.commands import get_workspaces_dir
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    manager = WorkspacesManager(get_workspaces_dir())
    manager.save(WORKSPACE, json.dumps(front_page.open_in(manager.load(WORKSPACE))))
