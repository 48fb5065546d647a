"""A JupyterHub whose learners each have labs of their own: one command brings it up, Ctrl-C takes all down.

Becomes JupyterHub with the configuration beside this file. Whatever ends it, the kernel ends what it began.
"""

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOR_A_CLASS = Path("/var/lib/labkit-hub")
"""Where a class has what the hub must remember, and what learners share."""
OPTIONS = """\
cluster/hub/up --try [FOLDER] [options of JupyterHub]
cluster/hub/up [FOLDER] [options of JupyterHub]        (as root)

  --try    anyone, on this machine alone: made-up learners with one password, their homes in FOLDER
  FOLDER   ./hub-try, or for a class /var/lib/labkit-hub
"""
LISTENS_AT = "http://127.0.0.1:8000"
"""On this machine's loopback alone. A class comes by SSH, or through a web server with a certificate."""
NEEDS = (
    ("jupyterhub", "JupyterHub", "pip install -e '.[hub]' in labkit's environment"),
    ("jupyterhub_idle_culler", "what ends idle servers", "pip install -e '.[hub]' in labkit's environment"),
    ("labkit", "labkit", "make install, then PYTHON=.venv/bin/python cluster/hub/up"),
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(usage=OPTIONS)
    parser.add_argument("--try", action="store_true", dest="tried")
    parser.add_argument("folder", nargs="?", type=Path)
    options, theirs = parser.parse_known_args(arguments)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if missing := lacking(path, options.tried):
        sys.exit("\n".join(missing))
    folder = (options.folder or (Path("hub-try") if options.tried else FOR_A_CLASS)).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(
        0o711 if not options.tried else 0o700
    )  # learners of a class pass through it to what they share
    told = {
        "PATH": path,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "LABKIT_HUB": str(folder),
        "LABKIT_HUB_TRY": "1" if options.tried else "",
        "LABKIT_HUB_ADDRESS": address(theirs),
    }
    print(f"The hub: {told['LABKIT_HUB_ADDRESS']}", flush=True)
    if options.tried:
        for name in ("LABKIT_HUB_PASSWORD", "LABKIT_HUB_TEACHERS_PASSWORD"):
            told[name] = os.environ.get(name) or secrets.token_urlsafe(24)
        print(f"Learners: any name, password {told['LABKIT_HUB_PASSWORD']}")
        print(f"The teacher: teacher, password {told['LABKIT_HUB_TEACHERS_PASSWORD']}", flush=True)
    os.umask(0o077)  # what the hub remembers is nobody else's
    os.chdir(folder)
    command = [sys.executable, "-m", "jupyterhub", "-f", str(HERE / "jupyterhub_config.py"), *theirs]
    if not options.tried and Path("/run/systemd/system").is_dir():
        delegated = ["--scope", "--quiet", "--collect", "--unit=labkit-hub", "--property=Delegate=yes"]
        command = [shutil.which("systemd-run") or "systemd-run", *delegated, *command]
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background ignores it, and servers would
    os.execve(command[0], command, os.environ | told)


def address(options: list[str]) -> str:
    """What browsers call the hub. Each learner's server, and each service, has a name of its own below it.

    What is below localhost is this machine for browsers, without anybody having to say so.
    """
    given = dict(option.partition("=")[::2] for option in options)
    port = urlsplit(given.get("--JupyterHub.bind_url", LISTENS_AT)).port
    return given.get("--JupyterHub.subdomain_host", f"http://localhost:{port}")


def lacking(path: str, tried: bool) -> list[str]:
    """What keeps a hub from coming up here, each with the fix."""
    found = [f"{what} is missing: {fix}" for module, what, fix in NEEDS if find_spec(module) is None]
    if not sys.platform.startswith("linux"):
        return [
            *found,
            "a hub keeps learners apart by namespaces of Linux: run it there, or in a virtual machine",
        ]
    proxy = shutil.which("configurable-http-proxy", path=path)
    if proxy is None or subprocess.run([proxy, "--version"], capture_output=True, timeout=60).returncode:
        how = "is missing" if proxy is None else "does not run"
        found.append(f"the proxy {how}: make hub, or npm install -g configurable-http-proxy")
    for program, package in (("bwrap", "bubblewrap"), ("setpriv", "util-linux")):
        if shutil.which(program, path=path) is None:
            found.append(f"{program} is missing, which keeps learners apart: apt-get install {package}")
    if not tried and os.geteuid() != 0:
        found.append("a class has accounts of its own, which takes root: sudo, or a try with --try")
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
