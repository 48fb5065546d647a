"""torch's own tests for backends pass on `mpi`, but for those that a file lists with a reason each."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import spread

from . import launcher
from .launches import Launches
from .table import Case

EXPECTED = Path(__file__).with_name("torch_expected_failures.txt")
SIZE, DEADLINE = 4, 60.0


def expected_failures() -> dict[str, str]:
    """Name of the test to the reason; `#` begins a comment line."""
    rows = [row for row in EXPECTED.read_text().splitlines() if row.strip() and not row.startswith("#")]
    return {name.strip(): reason.strip() for name, _, reason in (row.partition(":") for row in rows)}


def names() -> list[str]:
    """Asked in a process of its own: importing torch's tests changes torch's settings."""
    command = [sys.executable, "-W", "ignore", "-m", f"{__package__}.torch_suite"]
    found = subprocess.run(command, env=launcher.environment(), capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr[-3000:]
    return json.loads(found.stdout.splitlines()[-1])


def test_every_expected_failure_has_a_reason():
    assert all(expected_failures().values())


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "part", [pytest.param(1 / 4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.nightly)]
)
def test_torchs_own_tests(capsys, part):
    only = os.environ.get("LABKIT_TEST_ONLY", "")  # a regular expression, for who mends one of them
    tests = [name for name in names() if re.search(only, name)]
    tests = tests if only else spread(tests, round(part * len(tests)))
    cases = [Case(f"torch.{n}", print, (SIZE,), DEADLINE, True, None, False) for n in tests]
    launches = Launches(SIZE, False, cases, ("torch_suite",), carry_on=True)
    verdicts = {n: launches[f"torch.{n}"] for n in tests}
    counts = Counter(v.word for v in verdicts.values())
    failed = {n for n, v in verdicts.items() if v.word == "failed"}
    reasons = Counter(v.reason for v in verdicts.values() if v.word == "skipped")
    expected = expected_failures()
    with capsys.disabled():
        print(
            f"\ntorch's own tests at {SIZE} ranks: {len(tests)} in all; "
            + ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped"))
        )
        for reason, count in reasons.most_common():
            print(f"  {count:4d} skipped: {reason}")
        for name in sorted(failed & set(expected)):
            print(f"  failed as expected: {name}: {expected[name]}")
    surprises = "\n\n".join(f"{n}\n{verdicts[n].text}" for n in sorted(failed - set(expected)))
    assert not surprises, surprises
    gone = sorted(n for n in expected if n in tests and n not in failed)
    assert not gone, f"listed as failing, yet these did not fail: {gone}"
