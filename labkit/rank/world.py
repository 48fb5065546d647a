"""The world that a rank joins: the default process group, its device, and the names that a cell finds."""

import os
import random
import socket
from datetime import timedelta
from functools import cache

import numpy
import psutil
import torch
import torch.distributed as dist

from labkit import mpi
from labkit.launch import endings, living, mpi_files
from labkit.launch.hosts import ssh
from labkit.mpi.watched.install import install
from labkit.mpi.wire import store
from labkit.mpi.wire.runtime import MPI, WORLD

GROUP_TIMEOUT = timedelta(minutes=30)


def join_world() -> None:
    """Initialise the default process group over all ranks, rank and world size as MPI says."""
    expected = int(os.environ.get("LABKIT_WORLD_SIZE", WORLD.size))
    if WORLD.size != expected:
        raise SystemExit(
            f"{expected} ranks were started, but this rank's MPI ({MPI.Get_library_version().split()[0]}) "
            f"sees a world of {WORLD.size}: mpiexec and libmpi are of different MPIs"
        )
    torch.set_num_threads(1)
    backend = os.environ.get("LABKIT_BACKEND", "auto")
    if backend in ("auto", "mpi"):
        mpi.init(timeout=GROUP_TIMEOUT)
    else:
        numbers = {"store": _store(WORLD), "rank": WORLD.rank, "world_size": WORLD.size}
        dist.init_process_group(backend, timeout=GROUP_TIMEOUT, **numbers)


def remove_mpi_files() -> None:
    """What MPI has given names, for the ranks to find each other: once all have, nobody needs them."""
    WORLD.Barrier()
    mpi_files.remove(mpi_files.held_by([os.getpid()]))


def watch_mpi4py() -> None:
    """Let cells that use mpi4py be seen, checked, interrupted and recorded. Collective over all ranks."""
    checked = os.environ.get("LABKIT_CHECK", "") not in ("", "0")
    install(checked, before_abort=lambda rank, code: endings.note(endings.aborts(rank, code)))


def rejoin() -> None:
    """Make the default process group anew, without those that cells made. Collective over all ranks."""
    if dist.is_initialized():
        dist.destroy_process_group()
    join_world()


def face_the_notebook() -> None:
    """On several hosts, let gloo, NCCL and stores use the network that leads to the notebook."""
    notebook = os.environ.get("LABKIT_NOTEBOOK")
    if notebook:
        address = ssh.own_address(towards=notebook)
        os.environ.setdefault("MASTER_ADDR", WORLD.bcast(address))
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", ssh.interface(address))


def _store(world: MPI.Comm) -> dist.Store:
    one_host = world.Split_type(MPI.COMM_TYPE_SHARED).size == world.size
    return store.shared(world.rank, world.size, not one_host, world.allgather)


def device() -> torch.device:
    """The GPU with this rank's number on its host, or the CPU."""
    asked = os.environ.get("LABKIT_DEVICE", "auto")
    if asked == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", _number_on_host() % torch.cuda.device_count())


@cache
def _number_on_host() -> int:
    """This rank's among those of its host. Collective at its first call, which is at the start."""
    host = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    number = host.rank
    host.Free()
    return number


def use_own_gpu() -> None:
    """Make this rank's GPU the current one, which "cuda" means to torch and NCCL where no number is given."""
    own = device()
    if own.index:  # 0 is the current one already, and to say so would take memory there at once
        torch.cuda.set_device(own)


def names() -> dict:
    """What a cell finds on a rank before the learner defines anything."""
    return {
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "device": device(),
        "torch": torch,
        "dist": dist,
    }


def seed() -> None:
    """Reproducible, and different on each rank: rank r starts from seed r."""
    r = dist.get_rank()
    random.seed(r)
    numpy.random.seed(r)
    torch.manual_seed(r)


def describe() -> dict:
    """The facts of the table of ranks."""
    return {
        "rank": dist.get_rank(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": str(device()),
        "backend": dist.get_backend(),
        "started": living.started(psutil.Process()),
    }
