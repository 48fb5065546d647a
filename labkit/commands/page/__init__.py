"""What `labkit lab` adds to JupyterLab: the lab in the status bar, a front page that lives, lessons put back.

server           what the page asks of the server, as a Jupyter server extension
labextensions/   the page's side: one file of JavaScript, ready as it is
config/          what JupyterLab and new kernels are told beside
"""

import os
from pathlib import Path
from typing import Any

from labkit.launch import private

HERE = Path(__file__).parent


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "labkit.commands.page"}]


def _load_jupyter_server_extension(app: Any) -> None:
    from labkit.commands.page import server

    server.load(app)
    if "JUPYTERHUB_SERVICE_URL" in os.environ:
        private.shut_in()  # the server speaks for the hub: its learner's kernels must not speak in its place
