"""The runner names what failed, hung or died, and goes on with the cases after it."""

import pytest

from .launches import Launches
from .table import Case

pytestmark = pytest.mark.nightly  # it tests what tests

NAMES = ("passes", "fails_on_one_rank", "hangs_on_one_rank", "dies_on_one_rank", "passes_after_all_that")


@pytest.fixture(scope="module")
def found():
    cases = [Case(f"selftest_cases.{name}", print, (2,), 5.0, True, None, False) for name in NAMES]
    launches = Launches(2, False, cases, ("selftest_cases",))
    return {name: launches[f"selftest_cases.{name}"] for name in NAMES}


def test_a_case_passes_before_and_after_the_broken_ones(found):
    assert found["passes"].passed, found["passes"].text
    assert found["passes_after_all_that"].passed, found["passes_after_all_that"].text


def test_a_failure_carries_its_traceback(found):
    verdict = found["fails_on_one_rank"]
    assert verdict.words[1] == "failed"
    assert "wrong on purpose" in verdict.text


def test_a_hang_carries_the_line_that_waits(found):
    verdict = found["hangs_on_one_rank"]
    assert verdict.words[1] == "hung"
    assert "in hangs_on_one_rank" in verdict.text


def test_a_death_is_not_a_pass(found):
    assert found["dies_on_one_rank"].words[1] == "no verdict"
