"""The ssh of an mpiexec: it reaches hosts as labkit does, and marks what it starts there.

So the processes that an MPI keeps on a host beside the ranks are ended with the lab too.
"""

import os
import shlex
import sys

from labkit.launch import processes
from labkit.launch.hosts import ssh

_MODULE = "labkit.launch.hosts.remote_shell"
_ALSO_THERE = ("HWLOC_XMLFILE",)
"""What an MPI's processes on a host need to be told too, not only ranks; see `labkit.launch.mpi`."""


def command(lab_id: str, arguments: list[str]) -> list[str]:
    """What to run in place of `ssh [-x -q ...] host words...`.

    >>> command("ab12", ["-x", "miriad2a", "prted", "--x"])[-2:]
    ['miriad2a', "env LABKIT_LAB=ab12 sh -c 'prted --x'"]
    """
    first = next(i for i, argument in enumerate(arguments) if not argument.startswith("-"))
    options, (host, *words) = arguments[:first], arguments[first:]
    told = [f"{name}={os.environ[name]}" for name in _ALSO_THERE if name in os.environ]
    there = shlex.join(["env", f"{processes.MARK}={lab_id}", *told, "sh", "-c", " ".join(words)])
    return [*ssh.ssh(host, *options), there]


def script(lab_id: str) -> str:
    """A program that an MPI can call in place of ssh."""
    return f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", _MODULE, lab_id])} "$@"\n'


if __name__ == "__main__":
    instead = command(sys.argv[1], sys.argv[2:])
    os.execvp(instead[0], instead)
