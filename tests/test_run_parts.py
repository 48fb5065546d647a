"""The runner of the test suite: nothing is left out, nothing runs over its budget unnoticed."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.run_parts import ELSEWHERE, PARTS, ROOT, Part, main, run

BUDGET = {name: sum(part.minutes for part in parts) for name, parts in PARTS.items()}


def used(marker):
    mark = re.compile(rf"pytest\.mark\.{marker}\b")
    return any(mark.search(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("marker", ELSEWHERE)
def test_tests_that_are_left_out_of_one_part_have_another(marker):
    has_part = any(part.command[-2:] == ("-m", marker) for parts in PARTS.values() for part in parts)
    assert has_part == used(marker), "a marker in use needs a part, and a part needs tests"


def test_every_marker_that_is_declared_is_known_here(pytestconfig):
    ours = [line.partition(":")[0] for line in pytestconfig.getini("markers")]
    assert set(ELSEWHERE) <= set(ours)


def test_budgets_add_up_to_what_was_promised():
    assert BUDGET["test"] <= 22, "on a quiet machine it takes under 15"
    assert BUDGET["test"] + BUDGET["test-all"] <= 77, "3 of the 80 minutes are for installing"


def code(text, minutes=1.0, name="part"):
    return Part(name, minutes, ("-c", text))


def test_a_part_passes_or_fails_as_its_command_does(tmp_path):
    assert run(code("pass"), tmp_path / "r.xml")[1] == "passed"
    assert run(code("raise SystemExit(3)"), tmp_path / "r.xml")[1] == "failed (exit code 3)"


def test_a_part_over_its_budget_is_ended_and_fails(tmp_path):
    start = time.monotonic()
    assert run(code("import time; time.sleep(60)", minutes=0.01), tmp_path / "r.xml")[1] == "over budget"
    assert time.monotonic() - start < 10


def test_one_failure_does_not_hide_the_next_part(capfd):
    assert main((code("raise SystemExit(1)", name="first"), code("print('ran')", name="second"))) == 1
    printed = capfd.readouterr().out
    assert "ran" in printed and re.search(r"second +0\.0 +1\.0 +passed", printed)


def test_the_slowest_tests_are_listed_and_all_are_counted(tmp_path, capfd):
    sample = tmp_path / "test_sample.py"
    sample.write_text(
        "import time, pytest\ndef test_slow(): time.sleep(0.3)\ndef test_fast(): pass\n"
        "def test_wrong(): assert False\ndef test_left_out(): pytest.skip('here')\n"
    )
    alone = ("-p", "no:cacheprovider", "-c", str(tmp_path / "none.ini"), "--rootdir", str(tmp_path))
    (tmp_path / "none.ini").write_text("")
    assert main((Part("sample", 1, ("-m", "pytest", *alone, str(sample))),)) == 1
    printed = capfd.readouterr().out
    listed = printed.partition("slowest ten tests, in seconds:")[2]
    assert re.search(r"0\.\d  test_sample::test_slow\n", listed)
    assert listed.index("test_slow") < listed.index("test_fast")
    assert printed.rstrip().endswith("2 passed, 1 failed, 1 skipped")


def test_an_unknown_set_is_refused_in_one_sentence():
    runner = Path(ROOT, "tests", "run_parts.py")
    asked = subprocess.run([sys.executable, runner, "all"], capture_output=True, text=True, timeout=60)
    assert asked.returncode == 1
    assert asked.stderr == "Name one set of parts: test, test-all, faults, coverage, nightly\n"
