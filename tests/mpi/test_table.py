"""Every verb of torch.distributed at 2, 3 and 4 ranks, checked mode off, and at 3 ranks on.

Each case is a function in `cases_*.py`. All cases of a world size share one launch of ranks; each is a
test of its own here. `make test` runs it at one size, drawn by its name, and in checked mode, `make test-all`
at the others. Data is fresh in each run: `LABKIT_TEST_SEED` repeats one.
"""

from pathlib import Path

import pytest

from tests.conftest import drawn

from .launches import selects
from .table import MODULES, load

MODES = ((2, False), (3, False), (4, False), (3, True))


def rows():
    table = load()
    for size, checked in MODES:
        for case in filter(selects(size, checked), table.values()):
            mode = "-checked" if checked else ""
            sizes = [n for n, _ in MODES[:3] if selects(n, False)(case)]
            later = not checked and size not in drawn(case.name, sizes, 1)
            marks = [pytest.mark.nightly] if case.nightly else [pytest.mark.slow] * later
            yield pytest.param(case.name, size, checked, id=f"{size}{mode}-{case.name}", marks=marks)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("case_name", "size", "checked"), list(rows()))
def test_case(launches, case_name, size, checked):
    verdict = launches[size, checked][case_name]
    assert verdict.passed, verdict.text


def test_every_file_of_cases_is_in_the_table():
    assert {path.stem for path in Path(__file__).parent.glob("cases_*.py")} == set(MODULES)
