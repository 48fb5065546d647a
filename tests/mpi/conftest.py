"""One set of ranks per world size and mode; markers for what takes long."""

import os

import pytest

from labkit.launch import mpi_files

from . import launcher
from .launches import Launches
from .table import load


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes minutes; not part of a quick run")
    config.addinivalue_line("markers", "nightly: takes many minutes; run every night")


def pytest_sessionfinish():
    """To know the cases is to start MPI here, and Open MPI leaves a file of who has no mpiexec."""
    mpi_files.remove(mpi_files.held_by([os.getpid()]))


def pytest_collection_modifyitems(config, items):
    """What takes long runs when asked for by its marker, or by name."""
    chosen = config.getoption("markexpr") or any("::" in a for a in config.args)
    here = str(launcher.REPOSITORY / "tests" / "mpi")
    no_mpi = launcher.mpiexec() is None
    for item in items:
        if not str(item.path).startswith(here):
            continue
        if no_mpi:
            item.add_marker(pytest.mark.skip(reason="no mpiexec in this environment"))
        for name in ("slow", "nightly"):
            if item.get_closest_marker(name) and not chosen:
                item.add_marker(pytest.mark.skip(reason=f"run with -m {name}"))


@pytest.fixture(scope="session")
def launches(request):
    """(size, checked) to the launches that run the cases selected for this session."""
    wanted: dict[tuple[int, bool], list] = {}
    table = load()
    for item in request.session.items:
        found = getattr(item, "callspec", None)
        if found and item.get_closest_marker("skip") is None and "case_name" in found.params:
            key = found.params["size"], found.params["checked"]
            wanted.setdefault(key, []).append(table[found.params["case_name"]])
    return {key: Launches(*key, cases) for key, cases in wanted.items()}
