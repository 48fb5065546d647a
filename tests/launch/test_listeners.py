"""Whom a lab of one machine lets in: nobody on the network, and on the machine nobody but its user."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import zmq

from labkit.launch import processes, witness

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
for port in sys.argv[1:]:
    sockets.append(zmq.Context.instance().socket(zmq.SUB))
    sockets[-1].subscribe(b"")
    sockets[-1].connect(f"tcp://127.0.0.1:{{port}}")
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
    pids = {str(process.pid) for process in of_lab}
    segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    assert all(int(mode, 8) & 0o007 == 0 for _, _, mode, _, made_by, *_ in segments if made_by in pids)


@from_another_account
def test_what_cells_say_is_heard_by_no_other_account(labs, of_lab):
    lab = labs(2)
    ports = [str(port) for address, port in listening(of_lab) if address == "127.0.0.1"]
    code = LISTEN.format(uid=NOBODY, seconds=3)
    stranger = subprocess.Popen([sys.executable, "-c", code, *ports], stdout=subprocess.PIPE, env=UNMEASURED)
    stranger.stdout.readline()
    for _ in range(10):
        lab[:].execute("print('the answer')", silent=False, block=True)
    assert b"the answer" not in stranger.communicate(timeout=60)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_socket_that_refuses_all_is_still_open_to_who_waits_at_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        witness.refuse(server)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.getsockname(), timeout=2)
        with pytest.raises(TimeoutError):  # and no error, by which a launcher would end
            server.accept()
