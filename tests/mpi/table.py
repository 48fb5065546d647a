"""The table of cases: plain functions that run on every rank, each with its ranks and its deadline."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module

#: Every module whose functions are cases, in the order in which they run.
MODULES = (
    "cases_p2p",
    "cases_p2p_async",
    "cases_all_reduce",
    "cases_shared",
    "cases_large",
    "cases_reduce",
    "cases_gather",
    "cases_scatter",
    "cases_all_to_all",
    "cases_barrier",
    "cases_objects",
    "cases_groups",
    "cases_hooks",
    "cases_functional",
    "cases_as_gloo",
    "cases_trained_as_gloo",
    "cases_mesh",
    "cases_ddp",
    "cases_fsdp",
    "cases_parallel",
    "cases_pipeline",
    "cases_position",
    "cases_cuda",
    "cases_checkpoint",
    "cases_checked",
    "cases_checked_messages",
    "cases_interrupt",
    "cases_deadline",
    "cases_recover",
    "cases_leaks",
    "cases_lifecycle",
)


@dataclass(frozen=True)
class Case:
    """One test: what every rank calls, at which world sizes, within how many seconds."""

    name: str
    function: Callable
    sizes: tuple[int, ...]
    deadline: float
    gloo: bool
    checked: bool | None
    nightly: bool
    since: tuple[int, int] = (2, 13)


CASES: dict[str, Case] = {}


def case(
    sizes: tuple[int, ...] = (2, 3, 4),
    deadline: float = 60.0,
    gloo: bool = True,
    checked: bool | None = None,
    nightly: bool = False,
    since: tuple[int, int] = (2, 13),
):
    """Register a function as a case.

    `gloo=False`: gloo lacks the verb, so the case cannot be tried there. `checked`: run only with the
    checked mode on (True) or off (False); None runs in both. `since`: the PyTorch that has what it is about.
    """

    def register(function: Callable) -> Callable:
        module = function.__module__.rpartition(".")[2].removeprefix("cases_")
        name = f"{module}.{function.__name__}"
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = Case(name, function, sizes, deadline, gloo, checked, nightly, since)
        return function

    return register


def load(modules: Iterable[str] = MODULES) -> dict[str, Case]:
    """Import modules of cases, by default all of them, and return the table."""
    for module in modules:
        import_module(f".{module}", __package__)
    return CASES
