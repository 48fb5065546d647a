"""What runs on every rank: join the world, then serve cells as an ipyparallel engine.

A rank registers only when it can communicate, so a lab that has started is ready.
"""

import os
import random
import signal
import socket
import sys
from dataclasses import asdict
from datetime import timedelta
from math import inf

import numpy
import torch
import torch.distributed as dist
from ipyparallel.engine.app import IPEngine
from mpi4py import MPI

from labkit import hosts, interrupts, mpi, observe, recording, tracebacks
from labkit.errors import LabError
from labkit.mpi import limited, store
from labkit.recording.clocks import measure

GROUP_TIMEOUT = timedelta(minutes=30)


def join_world() -> None:
    """Initialise the default process group over all ranks, rank and world size as MPI says."""
    world = MPI.COMM_WORLD
    expected = int(os.environ.get("LABKIT_WORLD_SIZE", world.size))
    if world.size != expected:
        raise SystemExit(
            f"{expected} ranks were started, but this rank's MPI ({MPI.Get_library_version().split()[0]}) "
            f"sees a world of {world.size}: mpiexec and libmpi are of different MPIs"
        )
    torch.set_num_threads(1)
    backend = os.environ.get("LABKIT_BACKEND", "auto")
    if backend in ("auto", "mpi"):
        mpi.init(timeout=GROUP_TIMEOUT)
    else:
        numbers = {"store": _store(world), "rank": world.rank, "world_size": world.size}
        dist.init_process_group(backend, timeout=GROUP_TIMEOUT, **numbers)


def face_the_notebook() -> None:
    """On several hosts, let gloo, NCCL and stores use the network that leads to the notebook."""
    notebook = os.environ.get("LABKIT_NOTEBOOK")
    if notebook:
        address = hosts.own_address(towards=notebook)
        os.environ.setdefault("MASTER_ADDR", MPI.COMM_WORLD.bcast(address))
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", hosts.interface(address))


def _store(world: MPI.Comm) -> dist.TCPStore:
    """A key-value store that rank 0 serves, on loopback where all ranks are on one host."""
    one_host = world.Split_type(MPI.COMM_TYPE_SHARED).size == world.size
    own, address = store.serve(not one_host) if world.rank == 0 else (None, None)
    address = world.bcast(address)
    return own or store.connect(address)


def device() -> torch.device:
    """The GPU with this rank's number on its host, or the CPU."""
    asked = os.environ.get("LABKIT_DEVICE", "auto")
    if asked == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    local = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).rank
    return torch.device("cuda", local % torch.cuda.device_count())


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
    import psutil

    return {
        "rank": dist.get_rank(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": str(device()),
        "backend": dist.get_backend(),
        "started": psutil.Process().create_time(),
    }


def clean() -> None:
    """Forget what cells defined, and seed again: the namespace is as after a start."""
    from IPython import get_ipython

    recording.off()
    limited.limit(inf, 0.0)
    shell = get_ipython()
    shell.reset(new_session=False)
    shell.user_ns.update(names())
    seed()


def start_recording() -> None:
    """Record this rank's communication from now on."""
    recording.start()


def stop_recording():
    """What this rank recorded, or None if it did not."""
    return recording.stop()


def limit_network(bandwidth: float, latency: float) -> None:
    """Slow messages down to bytes per second, and seconds. Collective: clocks are compared."""
    limited.limit(bandwidth, latency, measure().offset / 1e9)


def recover() -> None:
    """Make every process group usable again, after an interrupt may have left messages under way."""
    if dist.get_backend() == "mpi":
        mpi.recover()
    else:
        dist.destroy_process_group()
        join_world()


def tell_of_exit() -> None:
    """Write down who called os._exit: Hydra ends the other ranks then, but does not say why."""
    mine, leave = os.getpid(), os._exit

    def _exit(status):
        if os.getpid() == mine:  # and not a child that this rank has forked
            os.write(2, f"PID {mine} RUNNING AT {socket.gethostname()}\nEXIT CODE: {status}\n".encode())
        leave(status)

    os._exit = _exit


def _refuse(what: str, fix: str):
    raise LabError(f"{what} on a rank", "a rank has no keyboard: nobody could answer it", fix)


class RankEngine(IPEngine):
    """An ipyparallel engine whose namespace holds what a lesson needs and nothing else.

    Its control thread answers while a cell runs: `labkit_state_request` with what this rank does,
    `labkit_interrupt_request` with a SIGINT to itself, which also ranks on other hosts can be sent.
    """

    def init_engine(self):
        super().init_engine()
        self.init_mpi = ""  # ipyparallel would put three names of its own into the namespace
        self.user_ns = names()

    async def complete_registration(self, *args):
        await super().complete_registration(*args)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing to save: end at once
        interrupts.install(self.kernel)
        tracebacks.install(self.kernel.shell)
        self.kernel._abort_queues = lambda *args: None  # a failed cell must not swallow the next one
        self.kernel.raw_input = lambda *prompt: _refuse("input()", "set the value in the cell")
        sys.breakpointhook = lambda *args, **kwargs: _refuse("breakpoint()", "print what you want to see")
        self.kernel.control_handlers["labkit_state_request"] = self._tell_state
        self.kernel.control_handlers["labkit_interrupt_request"] = self._interrupt

    def _tell_state(self, stream, ident, parent):
        content = {"status": "ok", "state": asdict(observe.state(self.id))}
        self.session.send(stream, "labkit_state_reply", content, parent, ident=ident)

    def _interrupt(self, stream, ident, parent):
        os.kill(os.getpid(), signal.SIGINT)
        self.session.send(stream, "labkit_interrupt_reply", {"status": "ok"}, parent, ident=ident)


def write_log_to(folder: str) -> None:
    """Write to files what is written outside of cells: mpiexec would carry it in clear text."""
    name = f"{folder}/ipengine-rank{dist.get_rank()}.log"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def main() -> None:
    face_the_notebook()
    join_world()
    if "LABKIT_LOGS" in os.environ:
        write_log_to(os.environ["LABKIT_LOGS"])
    seed()
    tell_of_exit()
    RankEngine.launch_instance()


if __name__ == "__main__":
    main()
