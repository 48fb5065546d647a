"""A script on ranks, where those of a lab would run.

    $ labkit run script.py [arguments]
    $ labkit run --ranks 3 --hosts a:2,b:2 script.py

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
from labkit.launch import Plan, cluster, processes, slurm
from labkit.launch.engines import Engines
from labkit.launch.hosts import ports
from labkit.launch.hosts.ports import free_port


def run(plan: Plan, script: list[str]) -> int:
    """Run the script on the plan's ranks; returns its exit code. Nothing of it outlives this process."""
    engines = Engines.prepare(plan, owner=processes.identity(psutil.Process()))
    try:
        command, options, environment = cluster.launcher(plan, engines.folder, engines.address)
        whole = [*command, "-n", str(plan.ranks), *options, *_program(plan, script)]
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


def _program(plan: Plan, script: list[str]) -> list[str]:
    program = [sys.executable, *script]
    return ["sh", "-c", slurm.FIRST_NODE, "sh", *program] if plan.launcher == "slurm" else program


def main(arguments: list[str]) -> int:
    """labkit run [--ranks N] [--hosts HOSTS] [--launcher LAUNCHER] SCRIPT [ARGUMENTS]."""
    parser = argparse.ArgumentParser(prog="labkit run", description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--ranks", help="how many; LABKIT_RANKS, or one per slot of the hosts, or 4")
    parser.add_argument("--hosts", help="as in LABKIT_HOSTS: a:2,b:2, or a file of hosts")
    parser.add_argument("--launcher", help=f"one of {', '.join(launch.LAUNCHERS)}")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    if not Path(args.script).is_file():
        raise LabError(f"ranks that run {args.script}", "there is no such file", "name a Python script")
    if Path(args.script).suffix == ".ipynb":
        fix = f"labkit export {args.script} > lesson.py, then run that"
        raise LabError(f"ranks that run {args.script}", "a notebook is no script", fix)
    plan = launch.plan(args.ranks, hosts=args.hosts, launcher=args.launcher)
    return run(plan, [args.script, *args.arguments])
