"""This machine and the hosts tell their facts, all asked for the same, at once."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.launch.hosts import facts, ssh
from labkit.launch.hosts.names import Host
from labkit.launch.hosts.ssh import Answer


@dataclass(frozen=True)
class Here:
    """This machine, which the hosts have to equal: its facts, and two places that they must have too.

    `shared` is a folder whose files all must see; ranks run in `directory`.
    """

    facts: dict[str, Any]
    shared: Path
    directory: str


def ask(hosts: tuple[Host, ...], mpiexec: str, shared: Path) -> tuple[Here, tuple[Answer, ...]]:
    """This machine, and what the hosts answer, in their order. For that long a file lies in `shared`."""
    token = shared / f"token-{secrets.token_hex(4)}"
    token.touch(0o600)
    try:
        token.write_text(secrets.token_hex(8))
        asked = {"token": str(token), "mpiexec": mpiexec, "directory": os.getcwd()}
        told = facts.facts(folder=str(ssh.PACKAGE), **asked)
        answers = ssh.probe(hosts, ssh.PROBE_DEADLINE, **asked) if hosts else ()
    finally:
        token.unlink()
    return Here(told, shared, asked["directory"]), answers
