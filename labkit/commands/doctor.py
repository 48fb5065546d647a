"""What keeps a lab from starting, here or on other hosts, and what others could read: found, wanted, the fix.

    $ labkit doctor
    $ labkit doctor --hosts a:2,b:2

Exit code 0 if nothing is wrong. labkit/launch/preflight/ asks and judges.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict

from labkit import LabError, launch
from labkit.launch import private, runtime
from labkit.launch.hosts import names, ports
from labkit.launch.hosts.names import Host
from labkit.launch.preflight import judge
from labkit.launch.preflight.ask import ask
from labkit.launch.preflight.judge import Check
from labkit.launch.runtime import RUNTIME


def examine(hosts: tuple[Host, ...]) -> list[Check]:
    """All checks of this machine, and of these hosts against it."""
    try:
        mpiexec = launch.find_mpi().mpiexec
    except LabError:
        mpiexec = ""
    opened = private.shut(RUNTIME.parent)
    here, answers = ask(hosts, mpiexec, runtime.folder())
    found = list(judge.of_this_machine(here.facts, _world(mpiexec)))
    found += judge.of_privacy(RUNTIME.parent, opened, private.shut(RUNTIME.parent), runtime.heard_by_others())
    for host, answer in zip(hosts, answers, strict=True):
        found += judge.of_host(host, answer, here)
    reached = ports.tried([answer for answer in answers if answer.facts], judge.HERE)
    return found + list(judge.of_ports(reached))


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
