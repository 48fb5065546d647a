"""What learners at a hub try, with all that is their own, to be more than that; what strangers try."""

import json
import os
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests import hub
from tests.launch.test_listeners import LOOK, as_stranger, listening

requests = pytest.importorskip("requests")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
NOTEBOOK = "course/00_meet_the_ranks.ipynb"
READ = """\
import os, sys
if "ipykernel_launcher" not in sys.orig_argv:
    with open({told!r}, "a") as told:
        print({place!r}, *sys.orig_argv[:6], file=told)
"""
PAGE = """
from tornado import web
class Page(web.RequestHandler):
    def get(self):
        self.finish("<h1>mine</h1>")
def _load_jupyter_server_extension(app):
    app.web_app.add_handlers(".*$", [(app.web_app.settings["base_url"] + "page", Page)])
def _jupyter_server_extension_points():
    return [{"module": "a_page"}]
"""
SITE = f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
CONFIG = ("", "server_", "lab_", "notebook_", "jupyterhub-singleuser_", "labhub_")


def set_a_trap(home: Path) -> Path:
    """Put code wherever Python or Jupyter might look for it in a home; the file that names what was run."""
    told = home / "told"
    files = {
        f"{SITE}/a_page.py": PAGE,
        "course/a_page.py": PAGE,
        f"{SITE}/trap.pth": "import a_trap_of_a_path",
    }
    code = [f"{SITE}/{name}.py" for name in ("sitecustomize", "usercustomize", "a_trap_of_a_path")]
    for folder in (".jupyter", ".local/etc/jupyter", "course", "."):
        code += [f"{folder}/jupyter_{name}config.py" for name in CONFIG]
        enabled = {"ServerApp": {"jpserver_extensions": {"a_page": True}}}
        files[f"{folder}/jupyter_server_config.d/page.json"] = json.dumps(enabled)
        files[f"{folder}/jupyter_server_config.json"] = json.dumps(enabled)
    modules = (
        "psutil",
        "json",
        "labkit",
        "tornado",
        "jupyterhub",
        "traitlets",
        "sitecustomize",
        "usercustomize",
    )
    code += [f"{folder}/{name}.py" for folder in ("course", ".") for name in modules]
    code += [
        ".pythonrc.py",
        ".ipython/profile_default/ipython_config.py",
        ".local/share/jupyter/kernels/trap.py",
    ]
    files |= {place: READ.format(told=str(told), place=place) for place in code}
    files |= {
        name: f"echo {name} >> {told}" for name in (".profile", ".bashrc", ".bash_profile", ".shrc", ".env")
    }
    files[".pam_environment"] = f"PYTHONPATH DEFAULT={home}\nLABKIT_COURSE DEFAULT={home}/course.toml\n"
    files[".local/share/jupyter/labextensions/trap/package.json"] = json.dumps(
        {
            "name": "trap",
            "version": "1.0.0",
            "jupyterlab": {"_build": {"load": "trap.js", "extension": "./x"}},
        }
    )
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return told


@pytest.fixture(scope="module", params=["made up", "accounts"])
def running(request, tmp_path_factory):
    """A hub of either kind, with ada, who has set her trap, and grace."""
    of_class = {"accounts": ("ada", "grace")} if request.param == "accounts" else {}
    with hub.up(tmp_path_factory.mktemp("hub"), **of_class) as found:
        yield found


@pytest.fixture(scope="module")
def ada(running):
    """Logged in, with a server that began in a home full of traps."""
    learner = running.learner("ada")
    list(learner.start())
    kernel = learner.open(NOTEBOOK)
    set_them = f"""
import sys; sys.path.insert(0, {str(hub.ROOT)!r})
from pathlib import Path
from tests.cluster.test_walls import set_a_trap
set_a_trap(Path.home())
"""
    assert not kernel.run(set_them).error
    learner.stop()
    list(learner.start())
    return learner


def asked(learner, method: str, path: str, **options):
    """What the hub answers somebody, whatever it is."""
    headers = {"X-XSRFToken": learner.session.cookies.get("_xsrf", path="/hub/")}
    return learner.session.request(
        method, f"{learner.hub}/hub/api/{path}", headers=headers, timeout=60, **options
    )


@pytest.fixture(scope="module")
def teacher(running):
    return running.learner("teacher", hub.TEACHERS_PASSWORD if is_made_up(running) else hub.PASSWORD)


def is_made_up(running) -> bool:
    """Whether learners have no accounts."""
    return not running.accounts


class TestALearnersOwnServer:
    def test_runs_nothing_that_lies_in_the_home(self, ada):
        kernel = ada.open("course/mine.ipynb")
        told = kernel.run("from pathlib import Path\nprint(Path('~/told').expanduser().exists())")
        assert told.text == "False\n", kernel.run("print(Path('~/told').expanduser().read_text())").text
        assert ada.session.get(f"{ada.server}/page", timeout=60).status_code == 404
        assert '"trap"' not in ada.session.get(f"{ada.server}/lab", timeout=60).text

    def test_lets_no_kernel_into_its_memory_or_its_socket(self, ada):
        """Whoever has that socket could answer the teacher's browser in the server's place."""
        attack = """
import ctypes, os, subprocess, sys
server, own = os.getppid(), subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
def copied(pid):
    libc, pidfd = ctypes.CDLL(None), os.pidfd_open(pid)
    return [n for n in range(64) if libc.syscall(438, pidfd, n, 0) >= 0]
def read(pid, name):
    try:
        return bool(open(f"/proc/{pid}/{name}", "rb").read(1) or True)
    except OSError:
        return False
def traced(pid):
    libc = ctypes.CDLL(None)
    held = libc.ptrace(16, pid, 0, 0)
    if held == 0:
        os.waitpid(pid, 0)
        libc.ptrace(17, pid, 0, 0)
    return held == 0
for pid in (own.pid, server):
    print(len(copied(pid)) > 0, read(pid, "environ"), traced(pid))
own.kill()
"""
        own, server = ada.open("course/mine.ipynb").run(attack).text.splitlines()
        assert own == "True True True" and server == "False False False"

    def test_holds_a_teachers_token_that_opens_nothing_else(self, ada, teacher):
        """A teacher who opens it gives it a token: good for that server, whose learner might have it."""
        secret = (
            ada.open("course/mine.ipynb").run("import os\nprint(os.environ['JUPYTERHUB_API_TOKEN'])").text
        )
        client, back = "jupyterhub-user-ada", "/user/ada/oauth_callback"
        query = {"client_id": client, "redirect_uri": f"{ada.server}/oauth_callback", "response_type": "code"}
        page = teacher.session.get(f"{teacher.hub}/hub/api/oauth2/authorize", params=query, timeout=60)
        form = {
            "scopes": ["access:servers!server=ada/"],
            "_xsrf": teacher.session.cookies.get("_xsrf", path="/hub/"),
        }
        agreed = teacher.session.post(page.url, data=form, allow_redirects=False, timeout=60)
        code = agreed.headers["Location"].partition("code=")[2].partition("&")[0]
        assert code and back in agreed.headers["Location"]
        sent = {
            "client_id": client,
            "client_secret": secret.strip(),
            "grant_type": "authorization_code",
            "code": code,
        }
        given = ada.session.post(
            f"{ada.hub}/hub/api/oauth2/token", data=sent | {"redirect_uri": query["redirect_uri"]}, timeout=60
        ).json()
        with_it = {
            "headers": {"Authorization": f"token {given['access_token']}"},
            "timeout": 60,
            "cookies": {},
        }
        session = type(ada)(ada.hub, "", "").session
        assert session.get(f"{ada.hub}/hub/api/user", **with_it).json()["name"] == "teacher"
        for method, path, body in BEYOND:
            answer = session.request(method, f"{ada.hub}/hub/api/{path}", json=body, **with_it)
            assert answer.status_code in (403, 404), (method, path, answer.text)


BEYOND = [
    ("PATCH", "users/ada", {"admin": True}),
    ("GET", "users", None),
    ("GET", "users/grace", None),
    ("POST", "users/mallory", {}),
    ("POST", "users/grace/server", {}),
    ("DELETE", "users/grace/server", None),
    ("POST", "users/grace/tokens", {}),
    ("POST", "users/teacher/tokens", {}),
    ("POST", "shares/grace/", {"user": "ada"}),
    ("POST", "groups/teachers/users", {"users": ["ada"]}),
    ("GET", "proxy", None),
    ("POST", "shutdown", {}),
]
"""What neither a learner may ask of the hub, nor a learner's server that a teacher has opened."""


class TestAtTheHub:
    def test_a_learner_asks_in_vain_for_what_others_may(self, ada):
        for method, path, body in BEYOND:
            answer = asked(ada, method, path, json=body)
            assert answer.status_code in (400, 403, 404), (method, path, answer.text)
        for scopes in (["admin:users"], ["access:servers"], ["access:servers!user=grace"]):
            assert asked(ada, "POST", "users/ada/tokens", json={"scopes": scopes}).status_code in (400, 403)
        assert ada.session.get(f"{ada.hub}/hub/admin", timeout=60).status_code == 403

    def test_the_page_of_the_class_is_for_teachers(self, ada, teacher):
        class_page = ada.hub.replace("//", "//class--service.") + "/services/class/"
        assert ada.session.get(class_page, timeout=60).status_code == 403
        assert teacher.session.get(class_page, timeout=60).status_code == 200

    def test_a_name_like_the_teachers_is_not_the_teacher(self, running):
        if not is_made_up(running):
            pytest.skip("accounts each have a password of their own")
        for name in (
            "teacher",
            "Teacher",
            "TEACHER",
            "teacher ",
            " teacher",
            "ｔｅａｃｈｅｒ",
            "teacher\u200b",
        ):
            with pytest.raises((AssertionError, OSError)):  # with the password of all learners
                running.learner(name)

    def test_a_page_of_one_learner_opens_no_socket_to_anothers_kernel(self, ada):
        """A browser adds the cookies to a page's WebSocket, and says whose page it is."""
        import websocket

        asked = {"path": "course/other.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        kernel = ada.api("POST", "sessions", json=asked).json()["kernel"]["id"]
        at = ada.server.removeprefix("http://")
        port, path = at.partition("/")[0].partition(":")[2], at.partition("/")[2]
        cookies = "; ".join(f"{c.name}={c.value}" for c in ada.session.cookies if c.path.startswith("/user"))

        def opened(origin: str) -> bool:
            try:
                websocket.create_connection(
                    f"ws://127.0.0.1:{port}/{path}/api/kernels/{kernel}/channels",
                    cookie=cookies, host=at.partition("/")[0], origin=origin, timeout=60,
                ).close()  # fmt: skip
                return True
            except websocket.WebSocketBadStatusException as refused:
                assert refused.status_code == 403
                return False

        own = f"http://{at.partition('/')[0]}"
        assert opened(own)
        for other in (own.replace("ada", "grace"), own.replace("ada.", ""), "null", "http://example.org"):
            assert not opened(other), other


LISTENS = """
import time, zmq
def ports():
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            yield int(words[1].partition(":")[2], 16)
def heard(seconds):
    context, sockets, found = zmq.Context(), {}, b""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for port in set(ports()) - set(sockets):
            sockets[port] = context.socket(zmq.SUB)
            sockets[port].subscribe(b"")
            sockets[port].connect(f"tcp://127.0.0.1:{port}")
        for each in sockets.values():
            while each.poll(1):
                found += b"".join(each.recv_multipart())
    context.destroy(linger=0)
    return len(sockets) > 3, b"the answer" in found
"""


def speaks_http(port: int) -> bool:
    """Whether a port answers such a request at all; those of a running lab answer nobody without its key."""
    try:
        return bool(requests.get(f"http://127.0.0.1:{port}/api/routes", timeout=5).status_code)
    except requests.RequestException:
        return False


def status(port: int, path: str) -> int:
    """What the answer is; to be sent on to the page where one logs in is to be refused."""
    answer = requests.get(f"http://127.0.0.1:{port}{path}", timeout=60)
    return 401 if "/login" in answer.url.partition("?")[0] else answer.status_code


class TestOfLearnersAndStrangers:
    def test_nobody_hears_anothers_kernel(self, running, ada):
        grace = running.learner("grace")
        list(grace.start())
        listens, speaks = grace.open(NOTEBOOK), ada.open("course/mine.ipynb")
        listens.run(LISTENS)
        said = threading.Thread(
            target=speaks.run,
            args=["import time\nfor _ in range(40):\n    print('the answer')\n    time.sleep(0.1)"],
        )
        said.start()
        assert listens.run("print(*heard(4))").text == "True False\n"
        said.join()
        grace.stop()

    def test_who_takes_the_port_of_a_server_that_starts_is_not_taken_for_it(self, running):
        """Ports are common to all, and a server needs seconds until it has its own."""
        grace, came, over = running.learner("grace"), [], threading.Event()

        class Fake(BaseHTTPRequestHandler):
            def do_GET(self):
                came.append(self.path)
                self.send_response(200)
                self.end_headers()

        def take() -> None:
            port = None
            while not port and not over.is_set():
                for process in running.of("grace"):
                    with suppress(psutil.Error):
                        port = port or urlsplit(process.environ().get("JUPYTERHUB_SERVICE_URL", "")).port
            with HTTPServer(("127.0.0.1", port), Fake) as fake:
                fake.timeout = 0.2
                while not over.is_set():
                    fake.handle_request()

        taking = threading.Thread(target=take)
        taking.start()
        try:
            with pytest.raises(AssertionError, match="failed"):
                list(grace.start())
        finally:
            over.set()
            taking.join()
        assert came == []

    def test_a_stranger_opens_nothing_of_the_hub(self, running, ada):
        """Its inner ports answer nobody who has no token; its files and environments are nobody else's."""
        ports = {port for _, port in listening(running.look())}
        assert len(ports) >= 4
        asked = (
            "/api/routes",
            "/hub/api/users",
            "/user/ada/api/contents",
            "/user/ada/lab/api/settings",
        )
        answers = {(port, path, status(port, path)) for port in ports for path in asked if speaks_http(port)}
        assert len({port for port, *_ in answers}) >= 3
        told = sorted(answers)
        assert {status for *_, status in answers} <= {401, 403, 404}, told
        mine = [
            path
            for path in running.folder.rglob("*")
            if "homes" not in path.parts and "class" not in path.parts
        ]
        assert mine and not [path for path in mine if path.lstat().st_mode & 0o077 and path.is_file()]
        if os.geteuid() == 0:
            told = as_stranger(LOOK, *(f"/proc/{each.pid}/environ" for each in running.look()))
            assert {how for how, *_ in told} <= {"PermissionError", "FileNotFoundError"}


def test_no_learner_has_the_site_of_a_service_or_of_another():
    from jupyterhub.utils import subdomain_hook_idna

    names = [
        "class",
        "class--service",
        "services",
        "hub",
        "www",
        "a-b",
        "a_b",
        "ada-service",
        "idle--service",
        "u-a",
    ]
    names += ["xn--a", "a", "a--b", "localhost", "x" * 32, "x" * 31 + "y"]
    sites = [subdomain_hook_idna(name, "localhost", "user") for name in names]
    sites += [subdomain_hook_idna(name, "localhost", "service") for name in ("class", "idle")]
    assert len(set(sites)) == len(sites) and all(site.count(".") == 1 for site in sites)
