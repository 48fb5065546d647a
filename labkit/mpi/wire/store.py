"""A key-value store for the default group: what torch's MPI branch leaves out, and gloo sub-groups need.

Who can write to it can lead ranks astray, so it is a file that nobody else can open: on one machine one
without a name, in memory; on several hosts one in the lab's folder. Only where there can be none, as for a
script on several hosts, it is a TCPStore, in which everybody on their network can read and write.
"""

import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import torch.distributed as dist

from labkit import LabError

FOLDER = "LABKIT_FOLDER"
"""Names the lab's folder, which only its user can enter and all its hosts see."""
_ARRIVED = "labkit/arrived"

AllGather: TypeAlias = Callable[[str], list[str]]
"""What every rank said, in their order."""


def shared(rank: int, size: int, several_hosts: bool, all_gather: AllGather) -> dist.Store:
    """One store for all ranks. Collective over them."""
    place = all_gather(_new_file(several_hosts) if rank == 0 else "")[0]
    store = _opened(place, all_gather)
    if all_gather(str(store is not None and store.add(_ARRIVED, 0) == size)) == ["True"] * size:
        return store
    served, address = _serve(several_hosts) if rank == 0 else (None, "")
    address = all_gather(address)[0]
    return served or _connect(address)


def _new_file(several_hosts: bool) -> str:
    """Where it is; "" if there can be none."""
    if several_hosts or not hasattr(os, "memfd_create"):
        if FOLDER not in os.environ:
            return ""
        file = Path(os.environ[FOLDER], f"store-{secrets.token_hex(8)}")  # a lab makes more than one
        file.touch(0o600)
        return str(file)
    name = f"labkit-{secrets.token_hex(8)}"
    made = os.memfd_create(name)
    os.fchmod(made, 0o600)
    return f"/proc/{os.getpid()}/fd/{made} /memfd:{name} (deleted)"


def _opened(place: str, all_gather: AllGather) -> dist.Store | None:
    """The store in that file, with a mark that this rank has been there; None if it cannot be had."""
    path, _, target = place.partition(" /memfd:")
    store = None
    with suppress(OSError, RuntimeError):
        if target:  # a process of that number may live in another container of the same name
            path = f"/proc/self/fd/{_own(path, f'/memfd:{target}')}"
        if os.path.exists(path):  # torch would wait for it for minutes
            store = dist.FileStore(path, -1)
            store.add(_ARRIVED, 1)
    all_gather("")
    return store


def _own(path: str, target: str) -> int:
    """A descriptor of ours for a file that is open in another process: it stays when that one ends."""
    if os.readlink(path) != target:
        raise FileNotFoundError(path)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def _serve(several_hosts: bool) -> tuple[dist.TCPStore, str]:
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


def _connect(address: str) -> dist.TCPStore:
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
