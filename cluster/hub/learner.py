"""A learner at a hub, as the hub sees one: logs in, gets a server, opens a notebook, runs cells."""

import json
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import requests
import websocket
from requests.adapters import HTTPAdapter

ANSWERS_WITHIN = 60.0
"""Seconds in which the hub, or a server that is up, answers."""


@dataclass
class Outcome:
    """What came of a cell: its text, the error's name if it failed, and how long it took."""

    text: str = ""
    error: str = ""
    seconds: float = 0.0


class _AsBrowsersDo(HTTPAdapter):
    """Whatever is below localhost is this machine, and no cookie is for all of it."""

    def get_connection_with_tls_context(self, request, verify, proxies=None, cert=None):
        return self.poolmanager.connection_from_host("127.0.0.1", urlsplit(request.url).port, "http")

    def send(self, request, **options):
        request.headers["Host"] = urlsplit(request.url).netloc
        try:
            answer = super().send(request, **options)
        finally:
            del request.headers["Host"]
        told = answer.raw._original_response.msg
        cookies = told.get_all("Set-Cookie", [])
        del told["Set-Cookie"]
        for cookie in cookies:
            told["Set-Cookie"] = re.sub(r"; Domain=localhost(?=;|$)", "", cookie)
        return answer


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", _AsBrowsersDo())
    return session


@dataclass
class Learner:
    """One who has an account at the hub of that address; `server` is that of the learner's own server."""

    hub: str
    name: str
    password: str
    session: requests.Session = field(default_factory=_session)
    server: str = ""

    def log_in(self) -> None:
        self._ask("GET", "hub/login")
        form = {
            "username": self.name,
            "password": self.password,
            "_xsrf": self.session.cookies.get("_xsrf", path="/hub/"),
        }
        page = self._ask("POST", "hub/login?next=/hub/home", data=form)
        assert page.url.endswith("/hub/home"), f"{self.name} was not let in: {page.url}"

    def start(self) -> Iterator[str]:
        """Ask for a server, and wait until it is there; what is said meanwhile."""
        self.hub_api("POST", f"users/{self.name}/server", json={})
        with self.hub_api("GET", f"users/{self.name}/server/progress", stream=True, timeout=None) as events:
            for line in events.iter_lines(decode_unicode=True):
                told = json.loads(line.removeprefix("data:")) if line and line.startswith("data:") else {}
                if told:
                    yield told.get("message", "")
                assert not told.get("failed"), f"{self.name}'s server: {told}"
                if told.get("ready"):
                    break
        page = self._ask("GET", f"hub/user/{self.name}/lab")  # its own cookie, by way of the hub's login
        self.server = page.url.partition("/lab")[0]

    def stop(self) -> None:
        self.hub_api("DELETE", f"users/{self.name}/server")

    def api(self, method: str, path: str, **options) -> requests.Response:
        """The learner's own server."""
        token = self.session.cookies.get("_xsrf", path=f"/user/{self.name}/")
        address = f"{self.server}/api/{path}"
        return self._ask(method, address, headers={"X-XSRFToken": token, "Referer": self.server}, **options)

    def open(self, notebook: str) -> "Kernel":
        """A kernel for a notebook."""
        asked = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": "python3"}}
        return Kernel(self, self.api("POST", "sessions", json=asked).json()["kernel"]["id"])

    def hub_api(self, method: str, path: str, **options) -> requests.Response:
        token = self.session.cookies.get("_xsrf", path="/hub/")
        headers = {"X-XSRFToken": token, "Referer": f"{self.hub}/hub/home"}
        return self._ask(method, f"hub/api/{path}", headers=headers, **options)

    def _ask(self, method: str, path: str, **options) -> requests.Response:
        options.setdefault("timeout", ANSWERS_WITHIN)
        address = path if path.startswith("http:") else f"{self.hub}/{path}"
        answer = self.session.request(method, address, **options)
        answer.raise_for_status()
        return answer


class Kernel:
    """A running notebook of a learner."""

    def __init__(self, learner: Learner, kernel_id: str):
        at = urlsplit(learner.server)
        address = f"ws://127.0.0.1:{at.port}{at.path}/api/kernels/{kernel_id}/channels"
        cookies = "; ".join(
            f"{cookie.name}={cookie.value}"
            for cookie in learner.session.cookies
            if cookie.path == f"/user/{learner.name}/"
        )
        self._learner, self._id = learner, kernel_id
        self._socket = websocket.create_connection(
            address, cookie=cookies, timeout=ANSWERS_WITHIN, host=at.netloc, origin=f"http://{at.netloc}"
        )

    def run(self, source: str, within: float = 150.0) -> Outcome:
        """Run a cell to its end."""
        begun, outcome, ended = time.monotonic(), Outcome(), set()
        asked = self._send("execute_request", {"code": source, "allow_stdin": False, "stop_on_error": False})
        while ended != {"reply", "idle"}:
            left = begun + within - time.monotonic()
            if left <= 0:
                outcome.error = f"no end within {within:.0f} s"
                break
            self._socket.settimeout(left)
            try:
                message = json.loads(self._socket.recv())
            except websocket.WebSocketTimeoutException:
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "stream":
                outcome.text += content["text"]
            elif kind == "error":
                outcome.error = content["ename"]
                outcome.text += "\n".join(content["traceback"])
            elif "data" in content:
                outcome.text += content["data"].get("text/plain", "") + "\n"
            elif kind == "execute_reply":
                ended.add("reply")
            elif kind == "status" and content["execution_state"] == "idle":
                ended.add("idle")
        outcome.seconds = time.monotonic() - begun
        return outcome

    def close(self) -> None:
        self._socket.close()
        self._learner.api("DELETE", f"kernels/{self._id}")

    def _send(self, kind: str, content: dict) -> str:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "username": "",
            "session": self._id,
            "version": "5.3",
        }
        message = {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
        }
        self._socket.send(json.dumps(message | {"buffers": []}))
        return header["msg_id"]
