"""The torch.distributed backend "mpi" for stock torch wheels, on mpi4py.

    $ mpiexec -n 4 python script.py

with `torch.distributed.init_process_group("mpi")` in the script needs no import of labkit. Importing
this module imports neither torch nor MPI; the first use does.

    entry          torch's entry point for backends
    registration   how torch learns of this backend and makes its groups
    world          what all groups of this process share
    process_group  torch's verbs, each mapped to one call of `begin`
    group          how calls are posted, given up and recovered
    identity       what torch asks of any process group
    call           what was asked, of whom, by which line
    work           one call under way
    collectives/   how each collective is run
    messages/      messages that are checked, or held back
    wire/          between this backend and MPI
    repair/        calls that cannot go well
    record/        what a rank notes of its calls
    cuda           tensors on GPUs
    process        how this process ends with the other ranks, and keeps MPI moving
    errors         what can go wrong inside a call
"""

from typing import Any

__all__ = ["MismatchError", "Status", "TaintedError", "init", "recover", "register", "status"]

_WHERE = {
    "MismatchError": "errors", "TaintedError": "errors", "Status": "wire.waiting", "status": "wire.waiting",
    "recover": "repair.recovery", "register": "registration",
}  # fmt: skip


def init(**options: object) -> None:
    """Initialise the default group on MPI; `options` go to `dist.init_process_group`.

    The same as that call with "mpi", for processes in which torch's entry point did not act.
    """
    import torch.distributed as dist

    from labkit.mpi.registration import register

    register()
    dist.init_process_group("mpi", **options)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
