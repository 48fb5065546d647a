"""The channel between notebook and ranks: ipyparallel's sockets, encrypted and signed.

A signature alone would keep others from running cells, and not from reading what cells say: every account of
this machine can connect to its loopback interface.
"""

import secrets
from pathlib import Path


def secure(folder: Path, address: str, hosts: tuple[str, ...] = ()) -> None:
    """Let the lab's controller listen for ranks at `address`, with CurveZMQ; the keys stay in `folder`.

    It watches the lab's keeper, too, which sees to those `hosts`.
    """
    settings = {
        "IPController.engine_ip": address,
        "IPController.enable_curve": True,
        "Session.key": secrets.token_hex(32).encode(),  # or ipyparallel would leave out signatures
    }
    file = folder / "ipcontroller_config.py"  # a command line could be read by all
    file.touch(0o600)
    lines = [f"c.{name} = {value!r}\n" for name, value in settings.items()]
    own = "from labkit.launch import heartbeat, keeping, ports\nheartbeat.in_a_thread()\nports.keep()\n"
    own += f"keeping.watch({str(folder)!r}, {hosts!r})\n"
    file.write_text("".join([own, *lines]))
