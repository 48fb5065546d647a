"""Ports that stay free until they are used."""

import socket

from labkit.launch.hosts import ports as module
from labkit.launch.hosts.ports import free_port


def test_a_port_is_free_and_not_one_that_connections_get():
    for _ in range(20):
        port = free_port()
        with socket.socket() as server, socket.socket() as other:
            server.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", 0))
            assert module.FIRST <= port < other.getsockname()[1]


def test_a_port_in_use_is_passed_over(monkeypatch):
    with socket.socket() as server:
        server.bind(("", 0))
        used = server.getsockname()[1]
        free = free_port()
        monkeypatch.setattr(module.random.SystemRandom, "sample", lambda *_: [used, free])
        assert free_port() == free
