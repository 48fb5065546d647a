"""The torch.distributed backend "mpi" for stock torch wheels, on mpi4py.

    $ mpiexec -n 4 python script.py

with `torch.distributed.init_process_group("mpi")` in the script needs no import of labkit. Importing
this module imports neither torch nor MPI; the first use does.

entry           what `import torch` calls
registration    how torch learns of this backend, and makes its groups
torch_internals  what is private in torch, and leant on
hooks           torch's hooks, which see each call
process_group   torch's verbs, each mapped to one call of `begin`
expect          what the verbs expect of their tensors
group           how calls are posted, in order
lifecycle       a group from its communicators to its end
identity        rank, size, names, timeout of a group
call            what was asked, of whom, in which line
progress        one call under way, until its last tensor is written
work            the same as torch has it
collectives/    what each collective does
messages/       send and recv, checked, or slow
hazards/        what may go wrong between a call and its wait
wire/           what goes to MPI, and the wait for it
record/         what a rank notes of its calls
repair/         calls that cannot go well, seen before or mended after
watched/        mpi4py's communicators in a lab's cells
world           what all groups of this process share
process         how this process ends with the others
cuda            tensors on GPUs
errors          what can go wrong in a call
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
