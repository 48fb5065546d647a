"""Can hosts reach each other? Each opens a port, and all others knock, as ranks will; and a free port."""

import errno
import json
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from labkit.launch.hosts import ssh
from labkit.launch.hosts.ssh import Answer

DEADLINE = 10.0
"""Seconds for all of it, per stage."""

LISTEN = """
import socket, sys, threading
door = socket.create_server(("", 0), backlog=256)
print(door.getsockname()[1], flush=True)
sys.stdin.read()
"""
"""Opens a port, says which, and closes it with its standard input. The kernel takes connections."""

KNOCK = """
import json, socket, sys
found = {}
for name, address, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((address, port), timeout=2).close()
        found[name] = ""
    except OSError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


def tried(answers: list[Answer], here: str) -> dict[tuple[str, str], str]:
    """(from, to): "" if a port opened on `to` can be reached from there, else why not. All pairs."""
    if not answers:
        return {}
    names = [answer.host for answer in answers]
    commands = {here: [sys.executable, "-c", LISTEN]}
    commands |= {name: [*ssh.ssh(name), ssh.python("-c", LISTEN)] for name in names}
    with ExitStack() as opened, ThreadPoolExecutor(len(commands)) as pool:
        doors = {name: opened.enter_context(_Door(command)) for name, command in commands.items()}
        known = dict(zip(doors, pool.map(_Door.port, doors.values()), strict=True))
        addresses = {name: address(name) for name in names}
        seen_at = {answer.host: answer.facts["sees_us_at"] for answer in answers}
        jobs = {}
        for source in commands:
            doors_of_others = [
                (name, seen_at[source] if name == here else addresses[name], port)
                for name, port in known.items()
                if name != source and port
            ]
            jobs[source] = pool.submit(_knock, source, source == here, doors_of_others)
        return {(source, target): why for source in jobs for target, why in jobs[source].result().items()}


def address(host: str) -> str:
    """The address behind a host's name, as ssh's configuration tells it."""
    told = subprocess.run(
        [*ssh.ssh(host)[:-1], "-G", host], capture_output=True, text=True, timeout=DEADLINE
    ).stdout
    name = next((line.split()[1] for line in told.splitlines() if line.startswith("hostname ")), host)
    return socket.gethostbyname(name)


class _Door:
    """A process that holds a port open until the end of the block."""

    def __init__(self, command: list[str]):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> "_Door":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def port(self) -> int:
        """Its number; 0 if it could not be opened."""
        line = self._process.stdout.readline().strip()
        return int(line) if line.isdigit() else 0


def _knock(source: str, is_here: bool, doors: list[tuple[str, str, int]]) -> dict[str, str]:
    given = json.dumps(doors)
    local, remote = (
        [sys.executable, "-c", KNOCK, given],
        [*ssh.ssh(source), ssh.python("-c", KNOCK, given)],
    )
    try:
        done = subprocess.run(
            local if is_here else remote, capture_output=True, text=True, timeout=DEADLINE + 2 * len(doors)
        )
        return json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        return {name: f"{source} did not answer" for name, _, _ in doors}


FIRST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that is free now, and that the system gives to nobody who does not ask for it by number.

    What `bind` to port 0 returns may be the near end of somebody's connection a moment later.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 49152
    for port in random.SystemRandom().sample(range(FIRST, end), 100):
        with socket.socket() as tried:
            try:
                tried.bind(("", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return port
    raise OSError(errno.EADDRINUSE, f"a hundred ports from {FIRST} to {end} are in use")
