"""A TCPStore for the default group: what torch's MPI branch leaves out, and gloo sub-groups need."""

import os
import socket
from datetime import timedelta

import torch.distributed as dist

from labkit import LabError


def serve(several_hosts: bool) -> tuple[dist.TCPStore, str]:
    """Start a store on a free port: (store, address). On one host it listens on loopback only.

    The address is "port,host,host...": all names under which other hosts may reach this one.
    """
    listener = socket.socket()
    listener.bind(("0.0.0.0" if several_hosts else "127.0.0.1", 0))
    listener.listen(1024)
    port = listener.getsockname()[1]
    hosts = _addresses() if several_hosts else ["127.0.0.1"]
    store = dist.TCPStore(
        "127.0.0.1",
        port,
        None,
        True,
        timedelta(minutes=5),
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return store, ",".join([str(port), *hosts])


def connect(address: str) -> dist.TCPStore:
    """A client of the store at `address`; tries each host in turn."""
    port, *hosts = address.split(",")
    for host in hosts:
        try:
            socket.create_connection((host, int(port)), timeout=2).close()
        except OSError:
            continue
        return dist.TCPStore(host, int(port), None, False, timedelta(minutes=5), wait_for_workers=False)
    raise LabError(
        f"the store of rank 0 on port {port}",
        f"none of {', '.join(hosts)} can be reached from {socket.gethostname()}",
        "open the network between the hosts, or name rank 0's address in MASTER_ADDR",
    )


def _addresses() -> list[str]:
    import psutil

    named = [os.environ["MASTER_ADDR"]] if os.environ.get("MASTER_ADDR") else []
    found = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]
    return list(dict.fromkeys([*named, socket.gethostname(), *found]))
