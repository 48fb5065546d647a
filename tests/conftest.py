"""Labs that tests share, one per world size; and which tests are a sample of many.

A test that runs at several world sizes, or over a long table, asserts the same property each time. `make
test` runs it at one size, drawn by its name, so that all sizes come up somewhere; `make test-all` (marker
`slow`) at one more, and `make nightly` at the others. Of a table likewise some rows, more rows, and all.
"""

import io
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conversation import session  # noqa: F401, a fixture
from tests.environments import newest_torch, other_mpi, other_python  # noqa: F401, fixtures
from tests.kernel import kernel  # noqa: F401, a fixture

os.environ.setdefault("LABKIT_SPARE", "0")  # tests that want spare ranks say so; others need the cores
with suppress(ImportError):  # not there where only the backend is tested
    import hypothesis

    hypothesis.settings.register_profile(  # how long an example takes says what else the machine does
        "labkit",
        deadline=None,
        derandomize="LABKIT_TEST_SEED" in os.environ,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("labkit")


WORLD_SIZE = ("lab", "ranks", "size", "n")
"""What tests call the parameter that is their world size."""


WORLD_SIZES = (3, 2, 4, 1)
"""A test runs by day at the first of these that it has, and in `make test-all` at the next one too."""


def spread(choices: Sequence, count: int) -> list:
    """So many of the choices, evenly over their order."""
    return [choices[n * len(choices) // count] for n in range(min(count, len(choices)))]


def in_tiers(choices: Iterable, by_day: int, at_once: int, label: Callable[..., str] = str) -> list:
    """Parameters of a test: so many for `make test`, so many more for `make test-all`, all others by night.

    Each tier takes its own evenly over the order of the choices. `label` makes a test's name of its values.
    """
    values = [choice if isinstance(choice, tuple) else (choice,) for choice in choices]
    day = spread(range(len(values)), by_day)
    left = [place for place in range(len(values)) if place not in day]
    marks = dict.fromkeys(day, []) | dict.fromkeys(spread(left, at_once), [pytest.mark.slow])
    return [
        pytest.param(*value, id=label(*value), marks=marks.get(place, [pytest.mark.nightly]))
        for place, value in enumerate(values)
    ]


def pytest_collection_modifyitems(items):
    """What needs ranks is marked so; of the world sizes of each such test some are for `make test`."""
    at_sizes: dict[str, dict[int, pytest.Item]] = {}
    for item in items:
        if not {"labs", "kernel"} & set(getattr(item, "fixturenames", ())):
            continue
        item.add_marker(pytest.mark.ranks)
        given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        sizes = [given.pop(name) for name in WORLD_SIZE if isinstance(given.get(name), int)]
        if sizes and not any(item.get_closest_marker(tier) for tier in ("slow", "nightly")):
            at_sizes.setdefault(f"{item.nodeid.split('[')[0]} {given}", {})[sizes[0]] = item
    for of_size in at_sizes.values():
        usual = [of_size.pop(size) for size in WORLD_SIZES if size in of_size]
        for place, item in enumerate([*usual, *of_size.values()][1:]):
            item.add_marker(pytest.mark.nightly if place else pytest.mark.slow)


running: dict = {}
"""The shared labs, by their world size."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What ranks do when a test has failed: one that hangs says nothing itself."""
    report = yield
    for lab in running.values() if report.failed else ():
        if lab.is_running():
            from labkit.lab import remote

            states = remote.ask_states(lab, [r.rank for r in lab.ranks])
            told = "\n".join(map(str, states.values())) or "they do not answer"
            report.sections.append((f"the ranks of a lab of {len(lab.ranks)}", told))
    return report


@pytest.fixture(scope="session")
def labs():
    """`labs(n)` is a running lab of n ranks with clean namespaces."""
    from labkit import launch  # not needed, nor there, where only the backend is tested
    from labkit.lab.lab import Lab

    def lab_of(ranks: int) -> Lab:
        if ranks not in running:
            running[ranks] = Lab(launch.plan(ranks))
        elif running[ranks].is_running():
            running[ranks].take_over()
        else:
            running[ranks].restart()
        return running[ranks]

    yield lab_of
    for lab in running.values():
        lab.stop()
    running.clear()


@pytest.fixture(scope="module")
def spare_ranks():
    """Labs of this module that start after this have spare ranks, which are prepared almost at once."""
    from labkit.launch import spare

    def surroundings():
        return {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}, os.getcwd()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(spare.SPARE, "1")
        patch.setattr(spare, "QUIET", 0.2)
        patch.setattr(spare, "_surroundings", surroundings)
        yield


@pytest.fixture(scope="session")
def ask():
    """`ask(view, "rank + 1")` evaluates an expression on ranks, after optional statements."""

    def ask(view, expression: str, statements: str = ""):
        view.execute(f"{statements}\nanswer = {expression}", block=True)
        return view["answer"]

    return ask


@pytest.fixture
def analysed():
    """`analysed(folder)`: what PyTorch's analyser says of Flight Recorder dumps, unchanged."""
    from torch.distributed.flight_recorder import fr_trace
    from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger

    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logger = FlightRecorderLogger().logger
    logger.addHandler(handler)

    def analysed(folder: Path) -> str:
        fr_trace.main([str(folder), "-p", "rank_"])
        return said.getvalue()

    yield analysed
    logger.removeHandler(handler)


@pytest.fixture(params=[1, 2, 3, 4], ids=lambda n: f"{n}ranks")
def lab(request, labs):
    """The shared labs of 1, 2, 3 and 4 ranks in turn."""
    return labs(request.param)


@pytest.fixture(scope="session")
def shell():
    """An IPython session, in which %%px can be registered."""
    from IPython.core.interactiveshell import InteractiveShell

    return InteractiveShell.instance()
