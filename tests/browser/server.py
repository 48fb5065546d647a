"""A Jupyter server on a copy of the lessons, with folders of its own: as a rule that of `labkit lab`."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from labkit.launch.hosts.ports import free_port

ROOT = Path(__file__).parents[2]
READY_WITHIN = 120.0  # seconds

LAB = ("labkit.commands", "lab", "--expose-app-in-browser")
# Rendering every cell lets a test find it without scrolling.
SETTINGS = {"notebook-extension/tracker": {"windowingMode": "none"}}


class Server:
    """`url(path)` opens a page; `root` is the folder of the notebooks; `labs` that of running labs."""

    def __init__(
        self, folder: Path, command: tuple[str, ...] = LAB, environment: Mapping[str, str] | None = None
    ):
        self.root, self.labs = folder / "notebooks", folder / "runtime" / "labkit"
        self.progress = folder / "progress"
        self._token, self._port = secrets.token_hex(16), free_port()
        shutil.copytree(ROOT / "notebooks", self.root)
        for name, values in SETTINGS.items():
            file = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        self._log = open(folder / "log", "w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command, "--no-browser", f"--port={self._port}"]
            + ["--ServerApp.port_retries=0", f"--IdentityProvider.token={self._token}"],
            env=os.environ
            | {
                "JUPYTER_CONFIG_DIR": str(folder / "config"),
                "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
                "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
                "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
                "LABKIT_PROGRESS": str(self.progress),
                "PYTHONPATH": str(ROOT),
            }
            | dict(environment or {}),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def wait(self) -> "Server":
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urlopen(self.url("api/status"), timeout=2).close()
                return self
            except (URLError, OSError):
                time.sleep(0.2)
        raise RuntimeError("Jupyter did not start:\n" + Path(self._log.name).read_text()[-3000:])

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}/{path}{'&' if '?' in path else '?'}token={self._token}"

    def stop(self) -> None:
        """As Ctrl-C, confirmed, does."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
