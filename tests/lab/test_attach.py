"""A debugger from outside attaches to a rank, stops it and lets it go on; nothing of it is left."""

import itertools
import json
import re
import socket
import threading

import psutil
import pytest
from IPython.utils.capture import capture_output

from labkit import LabError, launch
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from tests.waiting import until

pytestmark = pytest.mark.slow


class Debugger:
    """As much of the Debug Adapter Protocol as it takes to attach, to be told of a stop, and to go on."""

    def __init__(self, address, port):
        self._socket = socket.create_connection((address, port), timeout=30)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self.send("initialize", adapterID="labkit")
        self.send("attach", connect={"host": address, "port": port}, justMyCode=False)
        self.until("initialized")
        self.send("configurationDone")
        self.until("attach")

    def send(self, command, **arguments):
        body = json.dumps(
            {"seq": next(self._numbers), "type": "request", "command": command, "arguments": arguments}
        )
        self._socket.sendall(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())

    def until(self, name):
        """The first message that is of this event, or answers this request."""
        while True:
            length = int(re.search(rb"\d+", self._file.readline())[0])
            self._file.readline()
            message = json.loads(self._file.read(length))
            if name in (message.get("event"), message.get("command")):
                return message

    def close(self):
        self._file.close()
        self._socket.close()


@pytest.fixture
def lab():
    lab = Lab(launch.plan(2, backend="mpi"))
    yield lab
    lab.stop()


STOPS = """
import debugpy
x = torch.ones(1)
if rank == 1:
    debugpy.breakpoint()
    x *= 10
dist.all_reduce(x)
print(int(x))"""


def test_it_stops_a_rank_and_lets_it_go_on(lab, shell):
    where = lab.debugpy(rank=1)
    assert where == lab.debugpy(rank=1) and where.address == "127.0.0.1"
    assert "everybody with an account on" in repr(where)
    debugger, stopped = Debugger(where.address, where.port), []

    def drive():
        stopped.append(debugger.until("stopped")["body"])
        debugger.send("continue", threadId=stopped[0]["threadId"])

    driver = threading.Thread(target=drive)
    driver.start()
    with capture_output():
        PxMagics(shell, lab).cell_px("", STOPS)
    driver.join(60)
    assert repr(lab.last) == "[ranks 0-1] 11" and stopped[0]["reason"] in ("breakpoint", "step")
    debugger.close()


def test_an_interrupt_ends_such_a_stop(lab, shell):
    where = lab.debugpy(rank=1)
    debugger = Debugger(where.address, where.port)
    with capture_output(), pytest.raises(CellError, match="deadline of 3 s"):
        PxMagics(shell, lab).cell_px("--deadline 3", STOPS)
    debugger.close()
    with capture_output():
        PxMagics(shell, lab).cell_px("", "x = torch.ones(1)\ndist.all_reduce(x)\nprint(int(x))")
    assert repr(lab.last) == "[ranks 0-1] 2"


def test_its_port_and_process_go_with_the_lab():
    lab = Lab(launch.plan(2, backend="mpi"))
    where = lab.debugpy()
    lab.stop()
    assert until(lambda: not any("debugpy" in " ".join(p.cmdline()) for p in _mine()), 30)
    with pytest.raises(OSError):
        socket.create_connection((where.address, where.port), timeout=5)


def _mine():
    for process in psutil.process_iter():
        try:
            if process.uids().real == psutil.Process().uids().real and process.cmdline():
                yield process
        except psutil.Error:
            continue


def test_a_rank_that_is_not_there_is_refused(labs):
    with pytest.raises(LabError, match=r"lab.debugpy\(rank=9\)"):
        labs(2).debugpy(rank=9)
