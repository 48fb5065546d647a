"""Other hosts: how they are reached by ssh, and asked what they are.

User, port and key of a host are ssh's business: its own configuration tells them, or the file that
LABKIT_SSH_CONFIG names. Nothing here ever asks for a password.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import labkit
from labkit import LabError
from labkit.launch.hosts import facts
from labkit.launch.hosts.names import Host

SSH_CONFIG = "LABKIT_SSH_CONFIG"
PROBE_DEADLINE = 8.0
"""Seconds until a host that has not answered is taken for one that never will."""
CONNECT_DEADLINE = 4
"""Seconds that ssh is given to reach a host."""
PACKAGE = Path(labkit.__file__).parents[1]


@dataclass(frozen=True)
class Answer:
    """What one host told: `facts` as facts.py lists them, or else a fault, what was found, the fix."""

    host: str
    facts: dict[str, Any] | None = None
    fault: str = ""
    found: str = ""
    fix: str = ""
    clock_offset: float = 0.0  # seconds that its clock is ahead of ours


def ssh(host: str, *options: str) -> list[str]:
    """The start of a command that runs on a host; it never asks, and gives up on a silent host."""
    config = os.environ.get(SSH_CONFIG)
    given = ["BatchMode=yes", f"ConnectTimeout={CONNECT_DEADLINE}", "ServerAliveInterval=2"]
    given += ["ServerAliveCountMax=3", "LogLevel=ERROR"]
    return ["ssh", *(["-F", config] if config else []), *(f"-o{o}" for o in given), *options, host]


def python(*arguments: str) -> str:
    """The command line that runs this environment's interpreter, in whatever shell the user has there."""
    path = [f"PYTHONPATH={os.environ['PYTHONPATH']}"] if "PYTHONPATH" in os.environ else []
    return shlex.join(["env", *path, sys.executable, *arguments])


def interface(address: str) -> str:
    """The name of this host's network interface that has this address."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(a.address == address for a in addresses):
            return name
    raise LabError(
        f"the network interface with address {address}",
        "this machine has none, though the hosts see it there",
        "start the notebook where the hosts reach it directly, with no address translation between",
    )


def own_address(towards: str) -> str:
    """The address with which this host reaches another one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nothing_is_sent:
        nothing_is_sent.connect((towards, 9))
        return nothing_is_sent.getsockname()[0]


def probe(hosts: tuple[Host, ...], deadline: float = PROBE_DEADLINE, **asked: str) -> tuple[Answer, ...]:
    """What each host tells, all asked at once; returns within `deadline` seconds, in the order of `hosts`.

    `asked` are the arguments of `facts.facts`: a token's file to read, an mpiexec to ask.
    """
    with ThreadPoolExecutor(len(hosts)) as pool:
        return tuple(pool.map(lambda host: _ask(host.name, deadline, asked), hosts))


def _ask(host: str, deadline: float, asked: dict[str, str]) -> Answer:
    command = [*ssh(host), python("-", json.dumps({"folder": str(PACKAGE)} | asked))]
    before = time.time()
    try:
        done = subprocess.run(
            command, input=Path(facts.__file__).read_text(), capture_output=True, text=True, timeout=deadline
        )
    except subprocess.TimeoutExpired:
        silent = f"no answer within {deadline:g} s"
        return Answer(host, None, "host down", silent, f"see what keeps it: ssh {host}")
    after = time.time()
    try:
        told = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return _why_not(host, done.returncode, done.stderr.strip())
    ahead = max(told["clock"] - after, min(0.0, told["clock"] - before))  # 0 if it may lie between
    return Answer(host, told, clock_offset=ahead)


_REASONS = (  # what ssh says, what that fault is called, what it means, and the fix
    (
        r"Could not resolve",
        "host unknown",
        "nobody knows a host of that name",
        "mend the name, or name its address in {config}",
    ),
    (r"Connection refused", "host down", "it is there, and no ssh server listens", "start sshd on {host}"),
    (
        r"timed out|No route|unreachable",
        "host down",
        "it cannot be reached",
        "start {host}, or mend the network between",
    ),
    (r"denied \(.*password|interactive", "password asked", "it asks for a password", "ssh-copy-id {host}"),
    (
        r"Permission denied",
        "wrong key",
        "it takes none of your keys",
        "ssh-copy-id {host}, or name the key in {config}",
    ),
    (
        r"Host key verification|IDENTIFICATION",
        "other host key",
        "its host key is not the known one",
        "ssh-keygen -R {host}",
    ),
    (
        r"can't open|not found|No such file",
        "other Python",
        "{python} is not there",
        "make the same environment on {host}",
    ),
)


def _why_not(host: str, code: int, said: str) -> Answer:
    config = os.environ.get(SSH_CONFIG, "~/.ssh/config").replace(f"{Path.home()}/", "~/", 1)
    names = {"host": host, "config": config, "python": sys.executable}
    last = said.splitlines()[-1] if said else f"exit code {code}, and nothing said"
    for sign, fault, found, fix in _REASONS:
        if re.search(sign, said):
            return Answer(host, None, fault, f"{found.format(**names)} ({last})", fix.format(**names))
    return Answer(host, None, "no ssh", last, f"see what is wrong: ssh {host} {sys.executable} --version")
