"""What the notebook can ask of an idle rank."""

from math import inf

import torch.distributed as dist

from labkit import mpi
from labkit.mpi.messages import slow_link
from labkit.rank import recording, world
from labkit.rank.clocks import measure
from labkit.rank.world import describe  # noqa: F401 - asked for by name


def clean() -> None:
    """Forget what cells defined, and seed again: the namespace is as after a start."""
    from IPython import get_ipython

    recording.off()
    slow_link.limit(inf, 0.0)
    shell = get_ipython()
    shell.reset(new_session=False)
    shell.user_ns.update(world.names())
    world.seed()


def start_recording() -> None:
    """Record this rank's communication from now on."""
    recording.start()


def stop_recording():
    """What this rank recorded, or None if it did not."""
    return recording.stop()


def limit_network(bandwidth: float, latency: float) -> None:
    """Slow messages down to bytes per second, and seconds. Collective: clocks are compared."""
    slow_link.limit(bandwidth, latency, measure().offset / 1e9)


def recover() -> None:
    """Make every process group usable again, after an interrupt may have left messages under way."""
    if dist.get_backend() == "mpi":
        mpi.recover()
    else:
        dist.destroy_process_group()
        world.join_world()
