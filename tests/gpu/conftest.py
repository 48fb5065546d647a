"""Tests that need a GPU: skipped by name where there is none, and told in build/gpu.json by `make gpu`."""

import os
from collections.abc import Callable, Iterator

import pytest
from IPython.utils.capture import capture_output

from labkit import launch
from labkit.lab.lab import Lab
from labkit.lab.px import PxMagics
from tests.gpu import machine, report
from tests.gpu.report import Item

told: dict[str, Item] = {}
"""What is known of each item so far, by its name."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs in `make gpu` has a deadline of its own: the first use of a GPU takes long."""
    for item in items:
        if item.get_closest_marker("gpu") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture: those start ranks."""
    marker = item.get_closest_marker("gpu")
    if marker and (reason := machine.lacking(*marker.args)):
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    phase = yield
    if item.get_closest_marker("gpu"):
        name = item.nodeid.rpartition("tests/gpu/")[2]
        told[name] = report.after(told.get(name, Item(name)), phase)
        if phase.when == "teardown":
            report.write(list(told.values()), machine.described())
    return phase


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not told:
        return
    gpus = [f"{gpu['name']}, {gpu['memory_gb']} GB" for gpu in machine.described()["gpus"]]
    terminalreporter.section("GPUs: " + ("; ".join(gpus) or "none"))
    for line in [*report.lines(list(told.values())), f"All of it is in {report.FILE}."]:
        terminalreporter.write_line(line)


def _failures() -> int:
    return report.counts(list(told.values()))["failed"]


@pytest.fixture(scope="session")
def gpu_lab() -> Iterator[Callable[..., Lab]]:
    """`gpu_lab(4, backend="gloo")`: a running lab on the GPUs, with clean namespaces. One at a time.

    `through` is "nccl" or "host": how "mpi" moves tensors that are on a GPU; "" is as it finds best. After an
    item failed all ranks are new: what a GPU has come to lies in the process that used it.
    """
    running: dict[tuple, Lab] = {}

    def stop() -> None:
        for lab in running.values():
            lab.stop()
        running.clear()

    def lab_of(ranks: int, backend: str = "mpi", through: str = "") -> Lab:
        asked = ranks, backend, through, _failures()
        if asked in running and running[asked].is_running():
            running[asked].take_over()
            return running[asked]
        stop()
        os.environ["LABKIT_MPI_CUDA"] = through
        running[asked] = Lab(launch.plan(ranks, backend=backend, device="cuda"))
        return running[asked]

    yield lab_of
    stop()
    os.environ.pop("LABKIT_MPI_CUDA", None)


@pytest.fixture
def px(shell) -> Callable[..., str]:
    """`px(lab, cell)` runs a cell on all ranks, for 90 seconds at most; what the notebook would store."""

    def run(lab: Lab, cell: str, line: str = "--deadline 90") -> str:
        with capture_output() as captured:
            PxMagics(shell, lab).cell_px(line, cell)
        return "\n".join(output.data["text/plain"] for output in captured.outputs)

    return run
