"""A port that the controller has chosen is nobody else's until it listens there."""

import socket
import sys
import threading
import time

import pytest
import zmq

from labkit import launch
from labkit.lab.lab import Lab
from labkit.launch import ports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets two sockets share a port so")


@pytest.fixture
def free():
    found = ports.kept(20)
    yield found
    while ports._kept:
        ports._kept.pop().close()


def test_ports_are_distinct(free):
    assert len(set(free)) == 20


def test_others_do_not_get_them(free):
    for port in free:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def test_the_controller_does(free):
    with zmq.Context() as context:
        for port in free:
            with context.socket(zmq.ROUTER) as bound, context.socket(zmq.DEALER) as connected:
                bound.bind(f"tcp://127.0.0.1:{port}")
                connected.connect(f"tcp://127.0.0.1:{port}")
                connected.send(b"hello")
                assert bound.poll(5000) and bound.recv_multipart()[1] == b"hello"


@pytest.mark.slow
@pytest.mark.ranks
def test_a_lab_starts_while_others_take_ports():
    """Before ports were kept, 7 of 19 starts failed so: `Address already in use`."""
    done = threading.Event()

    def take_ports():
        taken = []
        while not done.is_set():
            other = socket.create_server(("127.0.0.1", 0))
            taken.append(other)
            if len(taken) > 400:
                taken.pop(0).close()
            time.sleep(0.0005)
        for other in taken:
            other.close()

    thief = threading.Thread(target=take_ports)
    thief.start()
    try:
        for _ in range(5):
            Lab(launch.plan(2)).stop()
    finally:
        done.set()
        thief.join()
