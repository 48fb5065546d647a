"""Whom a lab of one machine lets in: nobody on the network, and on the machine nobody but its user."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import requests
import zmq
from jupyter_client.blocking import BlockingKernelClient

from labkit.launch import processes, witness
from tests.browser.server import Server
from tests.waiting import until

NOBODY = 65534
KNOCK = """
import encodings.idna, json, os, socket, sys
os.setuid({uid})  # which may not read this Python
for address, port in json.load(sys.stdin):
    try:
        socket.create_connection((address, port), timeout=2).close()
        print("in", address, port)
    except ConnectionRefusedError:
        print("refused", address, port)
    except OSError as error:
        print(error, address, port)
"""
LISTEN = """
import os, sys, time, zmq
os.setuid({uid})
sockets, heard, until = [], b"", time.monotonic() + {seconds}
for address in sys.argv[1:]:
    sockets.append(zmq.Context.instance().socket(zmq.SUB))
    sockets[-1].subscribe(b"")
    sockets[-1].connect(address)
print(flush=True)
while time.monotonic() < until:
    for each in sockets:
        if each.poll(5):
            heard += b"".join(each.recv_multipart())
sys.stdout.buffer.write(heard)
os._exit(0)
"""
SHAKE_HANDS = """
import json, os, sys, time, zmq
from contextlib import suppress
from zmq.utils.monitor import recv_monitor_message
EVENTS = sum(event for event in zmq.Event if "HANDSHAKE" in event.name or "CLOSED" == event.name)
os.setuid({uid})
strangers = []
for port in json.load(sys.stdin):
    stranger = zmq.Context.instance().socket(zmq.DEALER)
    strangers.append((port, stranger, stranger.get_monitor_socket(EVENTS)))
    stranger.connect(f"tcp://127.0.0.1:{{port}}")
    asked = [b"<IDS|MSG>", b"", b'{{"msg_type": "registration_request"}}'] + [b"{{}}"] * 3
    with suppress(zmq.Again):  # who was refused before has nobody to send to, and would wait for ever
        stranger.send_multipart(asked, zmq.NOBLOCK)
until = time.monotonic() + 15
for port, stranger, told in strangers:
    left = max(0, int(1000 * (until - time.monotonic())))
    found = zmq.Event(recv_monitor_message(told)["event"]).name if told.poll(left) else "nothing"
    print(port, found, stranger.poll(100), flush=True)
os._exit(0)
"""
LOOK = """
import json, os, sys
os.setuid({uid})
for path in json.load(sys.stdin):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        print("read", path)
    except OSError as error:
        print(type(error).__name__, path)
"""
# Another account cannot write down what of it has run, where the tests are measured.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
from_another_account = pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux", reason="another account can be taken by root on Linux alone"
)


def listening(of_lab) -> set[tuple[str, int]]:
    found = (c for p in of_lab for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN)
    return {(c.laddr.ip, c.laddr.port) for c in found}


def own_addresses() -> set[str]:
    of_all = (a for addresses in psutil.net_if_addrs().values() for a in addresses)
    return {a.address for a in of_all if a.family == socket.AF_INET}


@pytest.fixture
def of_lab(labs):
    """The processes of a lab of two ranks."""
    return processes.of_lab(labs(2)._engines.lab_id)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets us close the launcher's ports")
def test_nobody_is_let_in_but_at_the_controller_and_there_on_loopback_only(of_lab):
    ports = listening(of_lab)
    doors = [(address, port) for address in own_addresses() | {"127.0.0.1"} for _, port in sorted(ports)]
    code = KNOCK.format(uid=NOBODY if os.geteuid() == 0 else os.geteuid())
    command = [sys.executable, "-c", code]
    told = subprocess.run(
        command, input=json.dumps(doors), capture_output=True, text=True, timeout=60, env=UNMEASURED
    )
    let_in = [line.split() for line in told.stdout.splitlines() if not line.startswith("refused")]
    assert len(told.stdout.splitlines()) == len(doors) and let_in
    assert {(how, address) for how, address, _ in let_in} == {("in", "127.0.0.1")}
    ranks_and_mpiexec = [
        p for p in of_lab if not any("ipyparallel.controller" in word for word in p.cmdline())
    ]
    theirs = {str(port) for _, port in listening(ranks_and_mpiexec)}
    of_controller = {str(port) for _, port in listening(set(of_lab) - set(ranks_and_mpiexec))}
    assert {port for *_, port in let_in} <= of_controller - theirs


def as_stranger(code: str, *given: object) -> list[list[str]]:
    """What a program prints, word by word, that is run from another account."""
    tells_where_it_hangs = "import faulthandler\nfaulthandler.dump_traceback_later(45, exit=True)"
    command = [sys.executable, "-c", f"{tells_where_it_hangs}\n{code.format(uid=NOBODY)}"]
    told = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, timeout=60, env=UNMEASURED
    )
    assert told.returncode == 0, told.stderr
    return [line.split() for line in told.stdout.splitlines()]


@pytest.mark.skipif(not shutil.which("ss"), reason="needs ss")
def test_ss_shows_loopback_alone_or_an_interface_that_does_not_exist(of_lab):
    told = subprocess.run(["ss", "-Htlnp"], capture_output=True, text=True, timeout=20).stdout
    pids = {f"pid={p.pid}," for p in of_lab}
    addresses = {line.split()[3] for line in told.splitlines() if any(pid in line for pid in pids)}
    assert addresses
    for address in addresses:
        assert address.startswith("127.0.0.1:") or f"%if{witness.NO_INTERFACE}:" in address


def shake_hands(ports: list[int]) -> dict[str, set[str]]:
    """What becomes of each handshake that another account begins, and how many were answered."""
    told = as_stranger(SHAKE_HANDS, *ports)
    assert [int(port) for port, *_ in told] == ports
    return {"events": {event for _, event, _ in told}, "answers": {answers for *_, answers in told}}


@from_another_account
def test_no_port_answers_another_account(of_lab):
    ports = [port for address, port in sorted(listening(of_lab)) if address == "127.0.0.1"]
    told = shake_hands(ports)
    assert len(ports) > 5 and any("HANDSHAKE_FAILED" in event for event in told["events"]), told
    assert "HANDSHAKE_SUCCEEDED" not in told["events"] and told["answers"] == {"0"}, told


@from_another_account
def test_a_port_that_lets_everybody_in_would_be_seen():
    with zmq.Context() as context, context.socket(zmq.ROUTER) as planted:
        port = planted.bind_to_random_port("tcp://127.0.0.1")
        assert shake_hands([port])["events"] == {"HANDSHAKE_SUCCEEDED"}


@from_another_account
def test_no_file_or_memory_of_a_lab_is_read_by_another_account(labs, of_lab):
    folder = labs(2)._engines.folder
    paths = [folder.parent, folder, *folder.rglob("*")]
    for process in of_lab:
        paths += [f"/proc/{process.pid}/{name}" for name in ("environ", "mem", "maps", "fd")]
        maps = Path(f"/proc/{process.pid}/maps").read_text().split()
        paths += {word for word in maps if word.startswith("/dev/shm/")}
    told = as_stranger(LOOK, *map(str, paths))
    assert len(told) == len(paths) and {how for how, *_ in told} <= {"PermissionError", "FileNotFoundError"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_shared_memory_of_ranks_is_their_users_alone(labs, of_lab):
    """Not its group's either, in which others could write over what ranks tell each other."""
    labs(2)[:].execute("import torch.distributed as d, torch; d.all_reduce(torch.ones(1 << 19))", block=True)
    pids = {str(process.pid) for process in of_lab}
    segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    modes = {f"segment {n}": int(mode, 8) for _, n, mode, _, made_by, *_ in segments if made_by in pids}
    for held in (held for pid in pids for held in Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(OSError):
            if os.readlink(held).startswith(("/dev/shm/", "/memfd:labkit")):
                modes[os.readlink(held)] = held.stat().st_mode
    assert any("memfd" in name for name in modes)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


@from_another_account
def test_what_cells_say_is_heard_by_no_other_account(labs, of_lab):
    lab = labs(2)
    ports = [f"tcp://127.0.0.1:{port}" for address, port in listening(of_lab) if address == "127.0.0.1"]
    with stranger_listens(*ports) as heard:
        for _ in range(10):
            lab[:].execute("print('the answer')", silent=False, block=True)
        assert b"the answer" not in heard()


@contextmanager
def stranger_listens(*addresses: str):
    """In this block another account listens there; what it has heard when it is asked."""
    code = LISTEN.format(uid=NOBODY, seconds=3)
    command = [sys.executable, "-c", code, *addresses]
    stranger = subprocess.Popen(command, stdout=subprocess.PIPE, env=UNMEASURED)
    try:
        stranger.stdout.readline()
        yield lambda: stranger.communicate(timeout=60)[0]
    finally:
        stranger.kill()
        stranger.communicate()


class Opened:
    """`labkit lab` at umask 000, in a home that all may read, whose folder for tokens was open to all."""

    def __init__(self, folder: Path):
        self.runtime = folder / "runtime"
        self.runtime.mkdir()
        self.runtime.chmod(0o777)
        before = os.umask(0)
        try:
            self.server = Server(folder)
        finally:
            os.umask(before)

    def begin(self) -> None:
        """Wait for the server, and start a kernel."""
        self.server.wait()
        self.id = self.asks("POST", "kernels")["id"]
        self.file = self.runtime / f"kernel-{self.id}.json"
        self.client = BlockingKernelClient(connection_file=str(self.file))
        self.client.load_connection_file()
        self.client.start_channels()
        self.ready()

    def ready(self) -> None:
        """Wait until the kernel answers; it has no heart yet while it begins."""

        def answers() -> bool:
            with suppress(RuntimeError):
                self.client.wait_for_ready(timeout=60)
                return True

        assert until(answers)

    def asks(self, method: str, path: str) -> dict:
        answer = requests.request(method, self.server.url(f"api/{path}"), timeout=60)
        answer.raise_for_status()
        return answer.json() if answer.content else {}

    def process(self) -> psutil.Process:
        found = psutil.Process(self.server._process.pid).children(recursive=True)
        return next(p for p in found if str(self.file) in p.cmdline())

    def run(self, source: str) -> str:
        said = []
        self.client.execute_interactive(
            source, timeout=60, output_hook=lambda m: said.append(str(m["content"]))
        )
        return "".join(said)

    def addresses(self) -> list[str]:
        """Where its kernel listens."""
        told = json.loads(self.file.read_text())
        between = ":" if told["transport"] == "tcp" else "-"
        named = [told[f"{name}_port"] for name in ("shell", "iopub", "stdin", "control", "hb")]
        found = [f"{told['transport']}://{told['ip']}{between}{port}" for port in named]
        return [*found, *(f"tcp://127.0.0.1:{port}" for _, port in listening([self.process()]))]


@pytest.fixture(scope="module")
def opened():
    folder = Path(tempfile.mkdtemp(prefix="labkit-opened-"))
    folder.chmod(0o755)
    found = Opened(folder)
    try:
        found.begin()
        yield found
        found.client.stop_channels()
    finally:
        found.server.stop()
        left = [path for path in found.runtime.iterdir() if path.is_socket()]
        shutil.rmtree(folder)
    assert not left


@from_another_account
class TestAServerThatLabkitOpened:
    def test_its_token_is_read_by_nobody_else(self, opened):
        files = [opened.runtime, *(path for path in opened.runtime.rglob("*") if path.is_file())]
        assert any("jpserver" in file.name for file in files)
        assert {how for how, _ in as_stranger(LOOK, *map(str, files))} == {"PermissionError"}

    def test_nobody_else_hears_its_kernels(self, opened):
        with stranger_listens(*opened.addresses()) as heard:
            for _ in range(10):
                assert "the answer" in opened.run("print('the answer')")
            assert b"the answer" not in heard()

    def test_nobody_else_hears_them_after_an_interrupt_and_a_restart(self, opened):
        running = opened.client.execute("import time\nprint('begun')\ntime.sleep(100)")
        while opened.client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
            pass
        opened.asks("POST", f"kernels/{opened.id}/interrupt")
        while (reply := opened.client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != running:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        before = opened.process().pid
        opened.asks("POST", f"kernels/{opened.id}/restart")
        opened.ready()
        assert opened.process().pid != before
        with stranger_listens(*opened.addresses()) as heard:
            assert "the answer" in opened.run("print('the answer')")
            assert b"the answer" not in heard()

    def test_a_kernel_that_was_killed_comes_back_and_leaves_no_socket(self, opened):
        before = opened.process()
        before.kill()
        assert until(lambda: not before.is_running() and any_kernel(opened)), "the server starts another"
        opened.ready()
        assert len([path for path in opened.runtime.iterdir() if path.is_socket()]) == 5


def any_kernel(opened) -> bool:
    try:
        return opened.process().is_running()
    except (StopIteration, psutil.Error):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_socket_that_refuses_all_is_still_open_to_who_waits_at_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        witness.refuse(server)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.getsockname(), timeout=2)
        with pytest.raises(TimeoutError):  # and no error, by which a launcher would end
            server.accept()
