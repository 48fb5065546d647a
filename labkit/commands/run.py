"""A script, or a module, on ranks, where those of a lab would run.

    $ labkit run script.py [arguments]
    $ labkit run --ranks 3 --hosts a:2,b:2 script.py
    $ labkit run -m package.module [arguments]

LABKIT_RANKS, LABKIT_HOSTS and LABKIT_LAUNCHER fill in what is left open, as for a lab. The script finds
MASTER_ADDR and MASTER_PORT, and the rank where its launcher puts it: what `labkit export` writes reads both.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from labkit import LabError, launch
from labkit.launch import Plan, cluster, living, processes, slurm
from labkit.launch.engines import Engines
from labkit.launch.hosts import ports
from labkit.launch.hosts.ports import free_port


def run(plan: Plan, program: list[str]) -> int:
    """Run what Python takes, a script or `-m` and a module, on the plan's ranks; returns its exit code.

    Nothing of it outlives this process.
    """
    engines = Engines.prepare(plan, owner=living.identity(psutil.Process()))
    try:
        command, options, environment = cluster.launcher(plan, engines.folder, engines.address)
        whole = [*command, "-n", str(plan.ranks), *options, *_command(plan, program)]
        process = subprocess.Popen(whole, env=os.environ | environment | meeting_point(plan))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        return processes.wait(process)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        engines.stop()


def meeting_point(plan: Plan) -> dict[str, str]:
    """Where the ranks meet, as torch.distributed names it, unless the environment says it already."""
    found = {"MASTER_PORT": str(free_port())}
    if plan.hosts:
        found["MASTER_ADDR"] = ports.address(plan.placed()[0].name)
    elif not plan.is_remote:
        found["MASTER_ADDR"] = "127.0.0.1"
    return {name: value for name, value in found.items() if name not in os.environ}


def _command(plan: Plan, program: list[str]) -> list[str]:
    command = [sys.executable, *program]
    return ["sh", "-c", slurm.FIRST_NODE, "sh", *command] if plan.launcher == "slurm" else command


def main(arguments: list[str]) -> int:
    """labkit run [--ranks N] [--hosts HOSTS] [--launcher LAUNCHER] (SCRIPT | -m MODULE) [ARGUMENTS]."""
    parser = argparse.ArgumentParser(prog="labkit run", description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--ranks", help="how many; LABKIT_RANKS, or one per slot of the hosts, or 4")
    parser.add_argument("--hosts", help="as in LABKIT_HOSTS: a:2,b:2, or a file of hosts")
    parser.add_argument("--launcher", help=f"one of {', '.join(launch.LAUNCHERS)}")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT names a module, as for python -m")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    if not args.module:
        _require_script(args.script)
    plan = launch.plan(args.ranks, hosts=args.hosts, launcher=args.launcher)
    return run(plan, [*(["-m"] if args.module else []), args.script, *args.arguments])


def _require_script(name: str) -> None:
    if not Path(name).is_file():
        raise LabError(f"ranks that run {name}", "there is no such file", "name a Python script")
    if Path(name).suffix == ".ipynb":
        fix = f"labkit export {name} > lesson.py, then run that"
        raise LabError(f"ranks that run {name}", "a notebook is no script", fix)
