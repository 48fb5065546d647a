"""The one lab of a notebook, or of a script: `start` makes it or gives it back, `running` finds it.

>>> import labkit
>>> lab = labkit.start(4)       # returns when every rank is ready to communicate
>>> lab[:]["rank"]
[0, 1, 2, 3]
>>> lab.stop()
"""

from labkit import LabError, launch
from labkit.lab.lab import Lab

_lab: Lab | None = None


def start(
    ranks: int | None = None,
    *,
    hosts: str | None = None,
    launcher: str | None = None,
    backend: str = "auto",
    mpi: str = "auto",
    device: str = "auto",
    take: bool = False,
) -> Lab:
    """Start ranks and return when all are ready to communicate. Lesson 00 meets them.

    `hosts` names other machines and their slots, as "miriad2a:2,miriad2b:2", or a file of them; see
    cluster/ssh. A second call returns the same lab with clean namespaces, and with new ranks only if it asks
    for others. Raises LabError if the request makes no sense, if the ranks do not come up, or if another
    notebook runs a cell on them, which only `take=True` ends.
    """
    global _lab
    plan = launch.plan(ranks, hosts=hosts, launcher=launcher, backend=backend, mpi=mpi, device=device)
    if _lab is not None and not take:
        _lab.require_leave()
    if _lab is None:
        _lab = Lab(plan, take)
    elif _lab.is_running() and _lab.plan == plan:
        _lab.take_over()
    else:
        _lab.stop()
        _lab.plan = plan
        _lab.restart(take=take)
    return _lab


def running(asked: str) -> Lab:
    """The lab that `start` returned. LabError if there is none yet."""
    if _lab is None:
        raise LabError(asked, "no lab was started in this notebook", "lab = labkit.start(4)")
    return _lab
