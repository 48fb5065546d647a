"""Labs that tests share: one per world size, started when first asked for, ended with the session."""

import os

import pytest

from tests.environments import other_mpi  # noqa: F401, a fixture

os.environ.setdefault("LABKIT_SPARE", "0")  # tests that want spare ranks say so; others need the cores


@pytest.fixture(scope="session")
def labs():
    """`labs(n)` is a running lab of n ranks with clean namespaces."""
    from labkit import launch  # not needed, nor there, where only the backend is tested
    from labkit.lab.lab import Lab

    running: dict[int, Lab] = {}

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


@pytest.fixture(params=[1, 2, 3, 4], ids=lambda n: f"{n}ranks")
def lab(request, labs):
    """The shared labs of 1, 2, 3 and 4 ranks in turn."""
    return labs(request.param)


@pytest.fixture(scope="session")
def shell():
    """An IPython session, in which %%px can be registered."""
    from IPython.core.interactiveshell import InteractiveShell

    return InteractiveShell.instance()
