"""`labkit lab`: JupyterLab on the lessons, which owns the lab that its notebooks share.

It takes the lab along when it ends: the lab's keeper watches it. Its page has the lab in the status bar.
"""

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

import psutil

from labkit.commands import front_page, lessons, page
from labkit.launch import living, runtime
from labkit.launch.shared import SERVER

WORKSPACE = "labkit"
CONFIG = "JUPYTER_CONFIG_PATH"
HUB = "JUPYTERHUB_SERVICE_URL"
"""By it a JupyterHub, which has started this, says where to listen."""
WITH_OUTPUTS = "--with-outputs"
"""Lessons are put in place with what they gave when they were stored."""
HELP = """\
labkit lab [FOLDER] [options of JupyterLab]

Open JupyterLab with the table of the lessons in front; its notebooks share one lab. An empty folder gets the
lessons; what you changed is never overwritten.

  FOLDER          where the notebooks are (this folder, or lessons/ in a clone)
  --with-outputs  put lessons there with their outputs, in which answers stand below predictions
  --course FILE   a course of a teacher's own, which says which lessons there are
  --no-browser    print the address, and open nothing
  --port=8889     another port

All other options are JupyterLab's, which says of itself:
"""
_ROOT = "--ServerApp.root_dir="
_HELPS = {"--help", "-h", "--help-all"}


def command(arguments: list[str]) -> list[str]:
    """The command that opens JupyterLab; lessons and front page are in place after this."""
    arguments = [
        f"{_ROOT}{Path(a).resolve()}" if i == 0 and Path(a).is_dir() else a for i, a in enumerate(arguments)
    ]
    asked = [a.removeprefix(_ROOT) for a in arguments if a.startswith(_ROOT)]
    folder = Path(asked[-1]) if asked else _folder()
    lessons.provide(folder, WITH_OUTPUTS in arguments)
    arguments = [argument for argument in arguments if argument != WITH_OUTPUTS]
    ours = [] if asked else [f"{_ROOT}{folder}"]
    for name in front_page.unreadable(folder):
        print(f"{name} is no notebook; remove it, and `labkit lab` puts the lesson there", file=sys.stderr)
    if not front_page.lessons(folder):
        print("There are no lessons here; `labkit lab` in an empty folder puts them there", file=sys.stderr)
    elif front_page.write(folder):
        _open_front_page()
        ours.append(
            f"--{'ServerApp' if HUB in os.environ else 'LabApp'}.default_url=/lab/workspaces/{WORKSPACE}"
        )
    else:
        print(f"{front_page.NAME} is yours and stays; the table of lessons is not shown", file=sys.stderr)
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    ours += [f"--LabApp.extra_labextensions_path={page.HERE / 'labextensions'}", _unheard()]
    # At a hub the server is the hub's, whatever modules its learner has: those are for kernels.
    program = ["-s", "-m", "jupyterhub.singleuser"] if HUB in os.environ else ["-m", "jupyterlab"]
    return [sys.executable, *program, *as_root, *ours, *arguments]


def _unheard() -> str:
    """How kernels talk so that no other account of this machine hears them, as it hears their ports."""
    if runtime.has_room_for_sockets():
        return "--KernelManager.transport=ipc"
    return "--KernelManager.transport_encryption=auto"  # older versions of Jupyter know of none, and warn


def main(arguments: list[str]) -> NoReturn:
    """Become JupyterLab."""
    with runtime.with_room():
        runtime.folder()
        runtime.sweep()
    if _HELPS & set(arguments):
        print(HELP, flush=True)
        run = [sys.executable, "-m", "jupyterlab", *arguments]
    else:
        run = command(arguments)
    os.environ[SERVER] = living.identity(psutil.Process())  # execv keeps pid and start time
    os.environ[CONFIG] = os.pathsep.join(filter(None, [os.environ.get(CONFIG), str(page.HERE / "config")]))
    os.execv(run[0], run)


def _folder() -> Path:
    """This folder; in a clone, whose own lessons show what nbval compares, one of the learner's in it."""
    if not any(Path("notebooks").glob(lessons.FILES)):
        return Path().resolve()
    Path("lessons").mkdir(exist_ok=True)
    return Path("lessons").resolve()


def _open_front_page() -> None:
    from jupyterlab.commands import get_workspaces_dir
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    manager = WorkspacesManager(get_workspaces_dir())
    manager.save(WORKSPACE, json.dumps(front_page.open_in(manager.load(WORKSPACE))))
