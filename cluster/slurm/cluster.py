"""A Slurm cluster inside one Linux machine: slurmctld, one slurmd per node, and munge, all in one folder.

    $ eval "$(cluster/slurm/up /tmp/slurm)"
    $ srun -n 4 hostname
    $ cluster/slurm/down /tmp/slurm

The nodes n1, n2, ... are this machine, each with two slots. Needs root, and Debian's slurmctld, slurmd,
slurm-client and munge, or the same from elsewhere; Python's standard library alone.
"""

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

DEADLINE = 30.0
"""Seconds within which all nodes must be idle, or all daemons gone."""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "srun")

CONF = """\
ClusterName=labkit
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=5
FirstJobId={first_job}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def up(folder: Path, nodes: int) -> None:
    """Start the daemons; returns when every node is idle."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing or os.geteuid() != 0:
        sys.exit(f"This needs root, and lacks: {', '.join(missing) or 'nothing else'}")
    folder.mkdir(mode=0o755, parents=True)
    (folder / "state").mkdir()
    controller, *ports = _free_ports(nodes + 1)
    names = [f"n{number}" for number in range(1, nodes + 1)]
    lines = [
        f"NodeName={name} NodeHostname=localhost Port={port} CPUs=2 State=UNKNOWN"
        for name, port in zip(names, ports, strict=True)
    ]
    first_job = 1 + secrets.randbelow(
        60_000_000
    )  # MPIs name shared memory after jobs; another cluster's may be left
    conf, key = folder / "slurm.conf", folder / "munge.key"
    conf.write_text(
        CONF.format(folder=folder, controller=controller, first_job=first_job, nodes="\n".join(lines))
    )
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    here = [
        f"--{what}={folder}/munge.{end}"
        for what, end in [
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        ]
    ]
    _run("munged", "--force", *here)
    _run("slurmctld", "-f", str(conf))
    for name in names:
        _run("slurmd", "-N", name, "-f", str(conf))
    deadline = time.monotonic() + DEADLINE
    while _states(conf) != ["idle"] * nodes:
        if time.monotonic() > deadline:
            down(folder)
            sys.exit(f"The nodes did not come up within {DEADLINE:g} s")
        time.sleep(0.2)
    print(f"export SLURM_CONF={conf}")


def down(folder: Path) -> None:
    """End every daemon of that folder, also those that a crash left, and remove it."""
    deadline = time.monotonic() + DEADLINE
    sign = signal.SIGTERM
    while running := _running(folder):
        for pid in running:
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                continue  # it went first
        if time.monotonic() > deadline - DEADLINE / 2:
            sign = signal.SIGKILL
        if time.monotonic() > deadline:
            sys.exit(f"These processes do not end: {running}")
        time.sleep(0.2)
    shutil.rmtree(folder, ignore_errors=True)


def _running(folder: Path) -> list[int]:
    """Pids of the daemons that were started for this folder, and of the steps that they look after."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # gone since
            ours = (
                any(str(folder) in word for word in words) or f"SLURM_CONF={folder}/slurm.conf" in environment
            )
            if ours and Path(words[0]).name.rstrip(":") in ("munged", "slurmctld", "slurmd", "slurmstepd"):
                found.append(int(entry.name))
    return found


def _states(conf: Path) -> list[str]:
    words = ["sinfo", "--noheader", "--Node", "--format=%t"]
    told = subprocess.run(words, env=os.environ | {"SLURM_CONF": str(conf)}, capture_output=True, text=True)
    return told.stdout.split()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="slurm", description=__doc__.splitlines()[0])
    parser.add_argument("do", choices=("up", "down"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2)
    args = parser.parse_args()
    folder = args.folder.resolve()
    up(folder, args.nodes) if args.do == "up" else down(folder)


if __name__ == "__main__":
    main()
