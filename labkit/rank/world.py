"""The world that a rank joins: the default process group, its device, and the names that a cell finds."""

import os
import random
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import cache, wraps
from inspect import signature
from typing import Any, NamedTuple

import numpy
import psutil
import torch
import torch.distributed as dist
import torch.distributed.nn  # noqa: F401 - as in a script, before a group is there, which it would keep as default
from IPython import get_ipython
from torch.distributed import distributed_c10d as c10d

from labkit import LabError, mpi
from labkit.launch import endings, living, mpi_files, ports
from labkit.launch.hosts import ssh
from labkit.launch.hosts.ports import free_port
from labkit.mpi.watched.install import install
from labkit.mpi.wire import store
from labkit.mpi.wire.runtime import MPI, WORLD

GROUP_TIMEOUT = timedelta(minutes=30)
_backend = ""
"""Of the process group that all ranks have made together."""


def join_world() -> None:
    """Initialise the default process group over all ranks, rank and world size as MPI says."""
    expected = int(os.environ.get("LABKIT_WORLD_SIZE", WORLD.size))
    if WORLD.size != expected:
        raise SystemExit(
            f"{expected} ranks were started, but this rank's MPI ({MPI.Get_library_version().split()[0]}) "
            f"sees a world of {WORLD.size}: mpiexec and libmpi are of different MPIs"
        )
    torch.set_num_threads(1)
    _meeting[:] = [_store(WORLD)]
    backend = os.environ.get("LABKIT_BACKEND", "auto")
    if backend in ("auto", "mpi"):
        mpi.init(timeout=GROUP_TIMEOUT)
    else:
        numbers = {"store": _store(WORLD), "rank": WORLD.rank, "world_size": WORLD.size}
        dist.init_process_group(backend, timeout=GROUP_TIMEOUT, **numbers)
    global _backend
    _backend = dist.get_backend()


def backend() -> str:
    """What the process group that `join_world` made runs on, whatever a cell has done since."""
    return _backend


def remove_mpi_files() -> None:
    """What MPI has given names, for the ranks to find each other: once all have, nobody needs them."""
    WORLD.Barrier()
    mpi_files.remove(mpi_files.held_by([os.getpid()]))
    mpi_files.close_segments()


def watch_mpi4py() -> None:
    """Let cells that use mpi4py be seen, checked, interrupted and recorded. Collective over all ranks."""
    checked = os.environ.get("LABKIT_CHECK", "") not in ("", "0")
    install(checked, before_abort=lambda rank, code: endings.note(endings.aborts(rank, code)))


def rejoin() -> None:
    """Make the default process group anew, without those that cells made. Collective over all ranks."""
    if dist.is_initialized():
        dist.destroy_process_group()
    join_world()


def begin_as_programs_do(note: Callable[[str], None]) -> None:
    """Let `init_process_group` in a cell hand out the group that is there; `note` tells the learner more.

    Programs of others begin with that call, and a cell may be run again. The second call in one cell fails
    as anywhere. After `destroy_process_group` it makes the group that it is asked for.
    """
    really, handed_out = dist.init_process_group, False

    @wraps(really)
    def init_process_group(backend: str | None = None, *args: Any, **options: Any) -> None:
        nonlocal handed_out
        if not dist.is_initialized() or handed_out:
            handed_out = True
            return really(backend, *args, **options)
        asked = signature(really).bind(backend, *args, **options).arguments
        here = {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
        if unlike := {name: asked[name] for name in here if asked.get(name, -1) not in (-1, here[name])}:
            raise LabError(
                "init_process_group with " + ", ".join(f"{name}={value}" for name, value in unlike.items()),
                "this is rank {rank} of {world_size}, which have a process group".format(**here),
                "leave it out, or start so many ranks: labkit.start({})".format(asked.get("world_size", "")),
            )
        handed_out = True
        if backend and dist.get_backend() not in backend:
            note(
                f"init_process_group({backend!r}) has got the process group that is there, with the backend "
                f"{dist.get_backend()!r}; LABKIT_BACKEND={backend} starts ranks with the other"
            )

    def in_a_new_cell(info: object) -> None:
        nonlocal handed_out
        handed_out = False

    dist.init_process_group = c10d.init_process_group = init_process_group
    get_ipython().events.register("pre_run_cell", in_a_new_cell)


def face_the_notebook() -> None:
    """On several hosts, let gloo, NCCL and stores use the network that leads to the notebook."""
    notebook = os.environ.get("LABKIT_NOTEBOOK")
    if notebook:
        address = ssh.own_address(towards=notebook)
        os.environ.setdefault("MASTER_ADDR", WORLD.bcast(address))
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", ssh.interface(address))


def name_itself() -> None:
    """Find out what torchrun tells each process in its environment, for cells and their children. Collective.

    So `init_process_group("gloo")` in scripts that the cells of all ranks start makes a world of those. The
    port is this lab's own, and nobody listens there.
    """
    port = (ports.kept(1)[0] if sys.platform == "linux" else free_port()) if WORLD.rank == 0 else 0
    host, leaders = _host(), sorted(set(WORLD.allgather(_host().first)))
    _named.update(
        RANK=WORLD.rank,
        WORLD_SIZE=WORLD.size,
        LOCAL_RANK=host.number,
        LOCAL_WORLD_SIZE=host.ranks,
        GROUP_RANK=leaders.index(host.first),
        GROUP_WORLD_SIZE=len(leaders),
        ROLE_RANK=WORLD.rank,
        ROLE_WORLD_SIZE=WORLD.size,
        ROLE_NAME="default",
        MASTER_ADDR=os.environ["MASTER_ADDR"] if "LABKIT_NOTEBOOK" in os.environ else "127.0.0.1",
        MASTER_PORT=WORLD.bcast(port),
    )


_named: dict[str, str | int] = {}


_OF_MPI = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "HYDI_")
"""How names begin by which MPI's launcher reaches this process: a child that believed them would be it."""


def as_started() -> None:
    """Have that environment, and no arguments, as a script in a world of its own."""
    for name in [name for name in os.environ if name.startswith(_OF_MPI)]:
        del os.environ[name]
    os.environ.update({name: str(value) for name, value in _named.items()})
    sys.argv[:] = ["cell"]


_meeting: list[dist.Store] = []
"""Where ranks meet, in `env://`, that make a default group of their own; and what they have made there."""


def meet_without_a_port() -> None:
    """Let cells give `init_process_group` what a script does, again and again.

    A server on MASTER_PORT would still be that of the group before when a rank is faster than rank 0, and
    have its keys.
    """
    init = dist.init_process_group
    os.register_at_fork(after_in_child=_meeting.clear)  # children are others, and meet at the port

    @wraps(init)
    def init_process_group(
        backend: str | None = None,
        init_method: str | None = None,
        timeout: timedelta | None = None,
        world_size: int = -1,
        rank: int = -1,
        store: dist.Store | None = None,
        *more: Any,
        **options: Any,
    ) -> None:
        by_environment = store is None and init_method in (None, "env://") and backend != "mpi"
        if by_environment and _meeting and not dist.is_initialized() and _is_of_lab(rank, world_size):
            _meeting.append(dist.PrefixStore(f"group {len(_meeting)}", _meeting[0]))
            init_method, rank, world_size, store = None, WORLD.rank, WORLD.size, _meeting[-1]
        init(backend, init_method, timeout, world_size, rank, store, *more, **options)

    dist.init_process_group = init_process_group


def _is_of_lab(rank: int, world_size: int) -> bool:
    """Whether the environment, and what was given, mean the ranks of this lab, and not fewer."""
    same = all(os.environ.get(name) == str(value) for name, value in _named.items())
    return same and rank in (-1, WORLD.rank) and world_size in (-1, WORLD.size)


def _store(world: MPI.Comm) -> dist.Store:
    one_host = world.Split_type(MPI.COMM_TYPE_SHARED).size == world.size
    return store.shared(world.rank, world.size, not one_host, world.allgather)


def device() -> torch.device:
    """The GPU with this rank's number on its host, or the CPU."""
    asked = os.environ.get("LABKIT_DEVICE", "auto")
    if asked == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", _host().number % torch.cuda.device_count())


class _Host(NamedTuple):
    """This rank's number among the `ranks` of its host, and the `first` of these."""

    number: int
    ranks: int
    first: int


@cache
def _host() -> _Host:
    """Collective at its first call, which is at the start."""
    host = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    found = _Host(host.rank, host.size, host.bcast(WORLD.rank))
    host.Free()
    return found


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
