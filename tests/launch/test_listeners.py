"""Whom a lab of one machine lets in: nobody on the network, and on the machine nobody but its user."""

import json
import os
import socket
import subprocess
import sys

import psutil
import pytest

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
    told = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(doors), capture_output=True, text=True, timeout=60
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


@from_another_account
def test_what_cells_say_is_heard_by_no_other_account(labs, of_lab):
    lab = labs(2)
    ports = [str(port) for address, port in listening(of_lab) if address == "127.0.0.1"]
    code = LISTEN.format(uid=NOBODY, seconds=3)
    stranger = subprocess.Popen([sys.executable, "-c", code, *ports], stdout=subprocess.PIPE)
    stranger.stdout.readline()
    for _ in range(10):
        lab[:].execute("print('the answer')", silent=False, block=True)
    assert b"the answer" not in stranger.communicate(timeout=30)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_socket_that_refuses_all_is_still_open_to_who_waits_at_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        witness.refuse(server)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.getsockname(), timeout=2)
        with pytest.raises(TimeoutError):  # and no error, by which a launcher would end
            server.accept()
