"""What the page asks of the server: what the lab does, its end, the front page anew, a lesson as it was."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from labkit import LabError
from labkit.commands import front_page, lessons
from labkit.launch import shared


def status(folder: Path, asked: dict[str, str]) -> dict[str, Any]:
    """The lab of this server: ranks, state, owner."""
    return shared.status()


def stop(folder: Path, asked: dict[str, str]) -> dict[str, Any]:
    """No lab any more."""
    shared.end_all()
    return shared.status()


def front(folder: Path, asked: dict[str, str]) -> dict[str, Any]:
    """The front page as far as the learner has come."""
    return {"written": front_page.write(folder)}


def reset(folder: Path, asked: dict[str, str]) -> dict[str, Any]:
    """A lesson as it was; what the learner had made of it is kept beside."""
    return {"kept": lessons.reset(folder / Path(asked["lesson"]).name)}


DOES: dict[str, Callable[[Path, dict[str, str]], dict[str, Any]]] = {
    "status": status,
    "stop": stop,
    "front": front,
    "reset": reset,
}


class Handler(APIHandler):
    """One of those, in a thread, for who has the server's token."""

    _track_activity = False  # a page that is open asks by itself, and a hub ends servers that nobody uses

    @web.authenticated
    async def post(self, name: str) -> None:
        folder = Path(self.settings["server_root_dir"]).expanduser()
        try:
            told = await asyncio.to_thread(DOES[name], folder, self.get_json_body() or {})
        except (LabError, OSError) as error:
            raise web.HTTPError(400, reason=str(error).replace("\n", "; ")) from error
        self.finish(json.dumps(told))


def load(app: Any) -> None:
    """Add them to a Jupyter server."""
    path = url_path_join(app.web_app.settings["base_url"], "labkit", f"({'|'.join(DOES)})")
    app.web_app.add_handlers(".*$", [(path, Handler)])
