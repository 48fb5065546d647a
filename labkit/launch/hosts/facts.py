"""What a host can tell of itself, in one JSON object: run there by ssh, read here.

It is sent over and run by itself, on a host that may have no labkit: the standard library alone,
and no annotation that an old Python would not take. The one argument is a JSON object: `token`, a
file of the shared folder to read; `mpiexec`, the MPI to ask; `folder`, where labkit is looked for;
`directory`, where the ranks are to run.
"""

import getpass
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time


def version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def says(*command: str) -> str:
    """What a program prints, or ""."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=5)
        return done.stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""


def read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def free_memory() -> int:
    """Bytes that new processes can have; 0 where the system does not tell."""
    for line in read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def free_shared_memory() -> int:
    """Bytes of shared memory that can be had; 0 where the system does not tell."""
    try:
        there = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return max(there.f_bavail * there.f_frsize, 1)


def running_ranks() -> int:
    """Ranks of labs, of whatever user, that run here."""
    commands = [line.split() for line in says("ps", "-eo", "args").splitlines()]
    forked = sum(any(word.endswith("/labkit/launch/witness.py") for word in c) for c in commands)
    others = sum("-m" in c and c[c.index("-m") + 1 : c.index("-m") + 2] == ["labkit.rank"] for c in commands)
    return forked + others // 2  # each of those has a witness of the same name


def gpus() -> list:
    names = shutil.which("nvidia-smi") and says("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return names.strip().splitlines() if names else []


def facts(token: str = "", mpiexec: str = "", folder: str = "", directory: str = "") -> dict:
    return {
        "hostname": socket.gethostname(),
        "user": getpass.getuser(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "labkit": os.path.isfile(os.path.join(folder, "labkit", "rank", "__main__.py")),
        "mpi_says": says(mpiexec, "--version") if mpiexec else "",
        "token": read(token) if token else "",
        "directory": os.path.isdir(directory) if directory else True,
        "clock": time.time(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "free_memory": free_memory(),
        "free_shared_memory": free_shared_memory(),
        "running_ranks": running_ranks(),
        "gpus": gpus(),
        "nccl": version("nvidia-nccl-cu13") or version("nvidia-nccl-cu12"),
        "sees_us_at": os.environ.get("SSH_CONNECTION", "").partition(" ")[0],
    }


if __name__ == "__main__":
    print(json.dumps(facts(**json.loads(sys.argv[1]))))
