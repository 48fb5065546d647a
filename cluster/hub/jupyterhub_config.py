"""The hub of a class on one server. `cluster/hub/up` starts it; each setting can be another one there."""

import os
import shutil
import sys
from pathlib import Path

from cluster.hub.hub import LISTENS_AT
from cluster.hub.room import GB
from cluster.hub.server import LearnersServer
from labkit.launch.hosts.ports import free_port

c = get_config()  # noqa: F821, JupyterHub's
FOLDER = Path(os.environ["LABKIT_HUB"])
TRIED = bool(os.environ.get("LABKIT_HUB_TRY"))
TEACHERS = "teachers"
IDLE = int(os.environ.get("LABKIT_HUB_IDLE", 2 * 3600))
"""Seconds without a cell or a click after which a server is ended. Its lab is ended after one hour."""
WITH_THE_HUB = ["setpriv", "--pdeathsig", "KILL"]
"""Before a command: ends with the hub, however that ends."""

c.JupyterHub.bind_url = LISTENS_AT
# Each learner's pages are another site for a browser than the hub's: no script in them asks the hub for
# anything in the name of whoever looks at them.
c.JupyterHub.subdomain_host = os.environ["LABKIT_HUB_ADDRESS"]
# Nor do they set its cookies, which browsers see to for localhost, and elsewhere by this prefix.
c.JupyterHub.cookie_host_prefix_enabled = c.JupyterHub.subdomain_host.startswith("https://")
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{free_port()}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{free_port()}"
c.ConfigurableHTTPProxy.command = [*WITH_THE_HUB, "configurable-http-proxy", "--log-level", "warn"]
c.ConfigurableHTTPProxy.pid_file = str(FOLDER / "proxy.pid")
c.JupyterHub.cleanup_servers = c.JupyterHub.cleanup_proxy = True
c.JupyterHub.log_level = "WARN"

# A learner's server: JupyterLab as `labkit lab` opens it, in a place of its own.
c.JupyterHub.spawner_class = LearnersServer
c.LearnersServer.disable_user_config = True  # the server's; kernels are the learner's own
c.LearnersServer.mem_limit = 3 * GB
c.LearnersServer.cpu_limit = 4.0
c.LearnersServer.environment = {"LABKIT_SPARE": "0"}  # a restart takes seconds longer, a lab half the memory
c.LearnersServer.shared = str(FOLDER / "class")
c.LearnersServer.interrupt_timeout = 10
c.LearnersServer.poll_interval = (
    2  # what is sent to a server that has ended may come to whoever has its port then
)
c.LearnersServer.start_timeout = 3600  # in the queue, too
c.LearnersServer.http_timeout = 300  # all of a class may come at once to a small server
c.JupyterHub.concurrent_spawn_limit = 0  # the queue sees to it
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0}  # who waits sees at once for what
c.Authenticator.username_pattern = r"[a-z][a-z0-9_-]{0,31}\Z"  # or what follows it could be anything

if TRIED:
    c.JupyterHub.authenticator_class = "shared-password"
    c.SharedPasswordAuthenticator.user_password = os.environ.pop("LABKIT_HUB_PASSWORD")
    c.SharedPasswordAuthenticator.admin_password = os.environ.pop("LABKIT_HUB_TEACHERS_PASSWORD")
    c.Authenticator.allow_all = True
    c.Authenticator.admin_users = {"teacher"}
    c.JupyterHub.db_url = "sqlite://"  # in memory
    c.JupyterHub.cookie_secret = os.urandom(32)
    c.LearnersServer.homes = str(FOLDER / "homes")
else:
    c.JupyterHub.authenticator_class = "pam"
    c.LocalAuthenticator.allowed_groups = {"learners", TEACHERS}
    c.LocalAuthenticator.admin_groups = {TEACHERS}

c.JupyterHub.load_roles = [
    {
        "name": "ends-idle-servers",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle"],
    },
]
CLASS = FOLDER / "class"
CLASS.mkdir(mode=0o700, exist_ok=True)
AS_TEACHER: list[str] = []
if not TRIED:  # who serves the page may read what is shared, and nothing else
    shutil.chown(CLASS, group=TEACHERS)
    CLASS.chmod(0o750)
    AS_TEACHER = ["--reuid", "nobody", "--regid", TEACHERS, "--clear-groups"]
c.JupyterHub.services = [
    {
        "name": "class",
        "url": f"http://127.0.0.1:{free_port()}",
        "command": [
            *WITH_THE_HUB,
            *AS_TEACHER,
            sys.executable,
            "-m",
            "labkit.commands",
            "class",
            "--hub",
            str(CLASS),
        ],
        "oauth_no_confirm": True,
    },
    {
        "name": "idle",
        "command": [*WITH_THE_HUB, sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={IDLE}"],
    },
]
