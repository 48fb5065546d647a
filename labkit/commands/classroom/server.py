"""The page of a class: on this machine, for who has its address; or at a hub, for who may see it there."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from labkit import LabError
from labkit.commands.classroom import tally

HERE = Path(__file__).parent
FILES = {"": "page.html", "page.js": "page.js", "page.css": "page.css"}
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class Page(web.RequestHandler):
    """The page and what it asks for, for who knows the token in its address."""

    def initialize(self, folder: Path, token: str = "") -> None:
        self.folder, self.token = folder, token

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")

    def get(self, name: str) -> None:
        if name != "page.js" and name != "page.css":  # those are the same for everyone
            self.require_leave()
        if name == "tally":
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(tally.page(self.folder)))
        else:
            file = HERE / FILES[name]
            self.set_header("Content-Type", f"{KINDS[file.suffix]}; charset=utf-8")
            self.finish(file.read_text(encoding="utf-8"))

    def require_leave(self) -> None:
        given = self.get_query_argument("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise web.HTTPError(403, reason="open the address that labkit class has printed")


def serve(folder: Path, port: int, tell: Callable[[str], None]) -> int:
    """Serve the page until Ctrl-C; `tell` is given its address."""
    token = secrets.token_urlsafe(16)
    path = f"/({'|'.join([*FILES, 'tally'])})"
    app = web.Application([(path, Page, {"folder": folder, "token": token})], log_function=_nothing)
    return _run(app, port, lambda bound: tell(f"http://127.0.0.1:{bound}/?token={token}"))


def serve_hub(folder: Path) -> int:
    """Serve it as a hub's service, where and to whom the hub says."""
    try:
        from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
    except ModuleNotFoundError:
        fix = "pip install 'labkit[hub]'"
        raise LabError("the class as a service of a hub", "JupyterHub is not installed", fix) from None
    told = os.environ.get("JUPYTERHUB_SERVICE_URL")
    if not told:
        fix = "cluster/hub/up starts it; on this machine alone it is labkit class FOLDER"
        raise LabError("the class as a service of a hub", "no hub has started this", fix)

    class HubPage(HubOAuthenticated, Page):
        """The same for who has logged in at the hub, and may see this service."""

        @web.authenticated
        def get(self, name: str) -> None:  # type: ignore[override]  # the decorator says less than it keeps
            assert self.xsrf_token, "its cookie is set by asking for it; page.js sends it back"
            super().get(name)

        def require_leave(self) -> None:
            """It has been asked."""

    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    path = f"{prefix}({'|'.join([*FILES, 'tally'])})"
    handlers: list[Any] = [
        (f"{prefix}oauth_callback", HubOAuthCallbackHandler),
        (path, HubPage, {"folder": folder}),
    ]
    app = web.Application(handlers, cookie_secret=os.urandom(32), log_function=_nothing)
    return _run(app, urlsplit(told).port or 0, lambda bound: None)


def _run(app: web.Application, port: int, tell: Callable[[int], None]) -> int:
    async def run() -> None:
        ended = asyncio.Event()
        for kind in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(kind, ended.set)
        try:
            sockets = bind_sockets(port, "127.0.0.1")
        except OSError as error:
            fix = "leave --port out, and a free one is taken"
            raise LabError(f"port {port}", str(error), fix) from None
        server = HTTPServer(app)
        server.add_sockets(sockets)
        tell(sockets[0].getsockname()[1])
        await ended.wait()
        server.stop()

    asyncio.run(run())
    return 0


def _nothing(handler: web.RequestHandler) -> None:
    """No line for each request: a page asks every few seconds."""
