"""What keeps a lab from starting, on this machine or on others: found, wanted, and the fix.

    $ labkit doctor
    $ labkit doctor --hosts a:2,b:2

Exit code 0 if nothing is wrong. The facts are gathered here; labkit/launch/preflight.py judges them.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
from dataclasses import asdict

from labkit import LabError, launch
from labkit.launch import preflight
from labkit.launch.engines import RUNTIME
from labkit.launch.hosts import facts, names, ports
from labkit.launch.hosts import ssh as machines
from labkit.launch.hosts.names import Host
from labkit.launch.preflight import Check


def examine(hosts: tuple[Host, ...]) -> list[Check]:
    """All checks of this machine, and of these hosts against it."""
    try:
        mpiexec = launch.find_mpi().mpiexec
    except LabError:
        mpiexec = ""
    RUNTIME.mkdir(parents=True, exist_ok=True)
    token = RUNTIME / f"doctor-{secrets.token_hex(4)}"
    token.touch(0o600)
    try:
        token.write_text(secrets.token_hex(8))
        asked = {"token": str(token), "mpiexec": mpiexec}
        here = facts.facts(folder=str(machines.PACKAGE), **asked)
        answers = machines.probe(hosts, machines.PROBE_DEADLINE, **asked) if hosts else ()
    finally:
        token.unlink()
    found = list(preflight.alone(here, _world(mpiexec)))
    for host, answer in zip(hosts, answers, strict=True):
        found += preflight.of_host(host, answer, here)
    reached = ports.tried([answer for answer in answers if answer.facts], preflight.HERE)
    return found + list(preflight.of_ports(reached))


def _world(mpiexec: str) -> str:
    """What two ranks say of their world."""
    if not mpiexec:
        return ""
    command = [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py.bench", "helloworld"]
    env = os.environ | launch.find_mpi().environment()
    try:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30).stdout
    except subprocess.TimeoutExpired:
        return "no answer within 30 s"


def main(arguments: list[str]) -> int:
    """labkit doctor [--hosts a:2,b:2] [--json]."""
    parser = argparse.ArgumentParser(prog="labkit doctor", description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", default="", help="as in LABKIT_HOSTS: a:2,b:2, or a file of hosts")
    parser.add_argument("--json", action="store_true", help="a list of checks, for machines")
    args = parser.parse_args(arguments)
    found = examine(names.parse(args.hosts) if args.hosts else ())
    if args.json:
        print(json.dumps([asdict(check) for check in found], indent=1))
    else:
        print(*found, sep="\n")
    return int(any(check.fault for check in found))
