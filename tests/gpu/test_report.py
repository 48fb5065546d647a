"""`make gpu` where there is no GPU: every item is skipped by name, with its reason, and counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu import report
from tests.gpu.report import Item

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[subprocess.CompletedProcess, dict]:
    """What `make gpu` runs, with all GPUs hidden: how it ended, and what it wrote."""
    file = tmp_path_factory.mktemp("gpu") / "build" / "gpu.json"
    hidden = {"CUDA_VISIBLE_DEVICES": "", "LABKIT_GPU_REPORT": str(file)}
    command = [sys.executable, "tests/run_parts.py", "gpu"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | hidden, capture_output=True, text=True, timeout=150
    )
    return done, json.loads(file.read_text())


@pytest.mark.slow
def test_it_passes_and_its_last_line_counts(made):
    done, told = made
    assert done.returncode == 0, done.stdout
    skipped = len(told["items"])
    assert done.stdout.splitlines()[-1] == f"0 passed, 0 failed, {skipped} skipped"
    assert told["counts"] == {"passed": 0, "failed": 0, "skipped": skipped}


@pytest.mark.slow
def test_each_item_says_why_it_was_skipped(made):
    done, told = made
    for item in told["items"]:
        assert item["outcome"] == "skipped" and item["reason"].startswith("needs ")
        assert any(item["name"] in line and item["reason"] in line for line in done.stdout.splitlines())


@pytest.mark.slow
def test_the_items_are_all_tests_that_carry_the_marker(made):
    files = {item["name"].partition("::")[0] for item in made[1]["items"]}
    marked = {file.name for file in Path(__file__).parent.glob("test_*.py") if "mark.gpu" in file.read_text()}
    assert files == marked - {Path(__file__).name}
    lessons = {item["name"][-3:-1] for item in made[1]["items"] if "test_lessons" in item["name"]}
    assert lessons == {f"{number:02}" for number in range(26)}


@pytest.mark.slow
def test_the_machine_is_described(made):
    machine = made[1]["machine"]
    assert machine["gpus"] == [] and machine["nccl"] is None
    assert machine["torch"] and machine["cores"] == os.cpu_count()


def phase(when: str, outcome: str, words: object = None, figures: tuple = ()) -> pytest.TestReport:
    return pytest.TestReport(
        "a", ("a", 1, "a"), {}, outcome, words, when, user_properties=figures, duration=1.5
    )


def after(*phases: pytest.TestReport) -> Item:
    item = Item("a")
    for one in phases:
        item = report.after(item, one)
    return item


def test_an_item_that_passed_has_its_seconds_and_figures():
    passed = after(phase("setup", "passed"), phase("call", "passed", figures=[("ms", 3.5)]))
    assert passed == Item("a", "passed", 3.0, "", {"ms": 3.5})
    assert report.lines([passed]) == ["passed  a  ms 3.5"]


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
def test_an_item_that_failed_anywhere_has_failed(when):
    phases = [
        phase(name, "failed" if name == when else "passed", "no memory")
        for name in ("setup", "call", "teardown")
    ]
    failed = after(*phases)
    assert (failed.outcome, failed.reason) == ("failed", "no memory")
    assert report.counts([failed, Item("b")]) == {"passed": 1, "failed": 1, "skipped": 0}


def test_an_item_skipped_on_the_way_says_why():
    skipped = after(phase("setup", "passed"), phase("call", "skipped", ("file", 1, "Skipped: gloo cannot")))
    assert (skipped.outcome, skipped.reason) == ("skipped", "gloo cannot")
