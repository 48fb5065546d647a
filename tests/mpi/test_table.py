"""Every verb of torch.distributed at 2, 3 and 4 ranks, checked mode off, and at 3 ranks on.

Each case is a function in `cases_*.py`. All cases of a world size share one launch of ranks; each is a
test of its own here. `make test` runs every other case once, at a size or in the mode drawn by its name,
`make test-all` the rest. Data is fresh in each run: `LABKIT_TEST_SEED` repeats one.
"""

from pathlib import Path

import pytest

from labkit.mpi import torch_internals
from tests.conftest import drawn

from .launches import selects
from .table import MODULES, load

MODES = ((2, False), (3, False), (4, False), (3, True))


def rows():
    names = list(load())
    by_day = drawn("table", names, len(names) // 2)
    for case in load().values():
        possible = [(size, checked) for size, checked in MODES if selects(size, checked)(case)]
        for size, checked in possible:
            mode = "-checked" if checked else ""
            later = case.name not in by_day or (size, checked) not in drawn(case.name, _by_day(possible), 1)
            marks = [pytest.mark.nightly] if case.nightly else [pytest.mark.slow] * later
            if case.since > torch_internals.RELEASE:
                marks.append(pytest.mark.skip(reason="PyTorch {}.{} and newer".format(*case.since)))
            yield pytest.param(case.name, size, checked, id=f"{size}{mode}-{case.name}", marks=marks)


def _by_day(possible):
    """Each launch takes seconds: by day there is none of 3 ranks unchecked, unless a case needs it."""
    return [mode for mode in possible if mode != (3, False)] or possible


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("case_name", "size", "checked"), list(rows()))
def test_case(launches, case_name, size, checked):
    verdict = launches[size, checked][case_name]
    assert verdict.passed, verdict.text


def test_every_file_of_cases_is_in_the_table():
    assert {path.stem for path in Path(__file__).parent.glob("cases_*.py")} == set(MODULES)
