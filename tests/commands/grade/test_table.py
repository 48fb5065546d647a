"""A table and a page of what other people wrote: neither a spreadsheet nor a browser takes it for more."""

import csv
import io
from html.parser import HTMLParser

import pytest

from labkit.commands.grade.again import NO_VERDICT, Result, _verdict
from labkit.commands.grade.inside import unusual
from labkit.commands.grade.sandbox import Ended
from labkit.commands.grade.table import COLUMNS, as_csv, as_page

SCRIPT = "<script>alert(1)</script>"


def result(learner="Ada", exercise="mean_loss", solved=True, mistake="", told=("", True), **more):
    return Result(f"{learner}.labkit.json", learner, exercise, solved, mistake, told[1], told[0], **more)


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.said = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen |= {tag, *(name for name, _ in attributes)}

    def handle_data(self, data):
        self.said += data


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t=", "\r="])
def test_no_cell_is_a_formula(begins):
    text = as_csv([result(learner=f'{begins}HYPERLINK("http://x")', look_at=f"{begins}1")])
    names, row = csv.reader(io.StringIO(text))
    assert tuple(names) == COLUMNS and len(row) == len(COLUMNS)
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


def test_no_name_is_a_tag():
    page = Tags(as_page([result(learner=SCRIPT, solved=False, mistake=SCRIPT)], {SCRIPT: SCRIPT}))
    assert "script" not in page.seen and not {name for name in page.seen if name.startswith("on")}
    assert page.said.count("alert(1)") >= 4


def test_who_made_which_mistake():
    made = [result(f"{n}", solved=False, mistake="deadlock", told=("deadlock", False)) for n in "ABC"]
    page = Tags(as_page([*made, result("D", solved=False, mistake="the mean"), result("E")], {})).said
    assert "1 of 1" in page and "0 of 1" in page
    assert page.index("A, B, C") < page.index("the mean", page.index("Mistakes"))


@pytest.mark.parametrize(
    ("solved", "mistake", "told", "agrees"),
    [
        (True, "", ("", True), True),
        (False, "deadlock", ("deadlock", False), True),
        (False, "deadlock", ("the mean", False), False),
        (False, "deadlock", ("", True), False),
        (True, "", ("deadlock", False), False),
    ],
)
def test_agreement(solved, mistake, told, agrees):
    told_otherwise = result(solved=solved, mistake=mistake, told=told)
    assert told_otherwise.agrees == agrees
    assert ("told otherwise" in as_page([told_otherwise], {})) != agrees
    assert f",{'yes' if agrees else 'no'}," in as_csv([told_otherwise])


@pytest.mark.parametrize(
    "said",
    ["", "{", "[]", "[" * 100_000, "null", '{"solved": 1, "mistake": "", "look_at": ""}', '{"solved": true}',
     '{"solved": true, "mistake": "deadlock", "look_at": ""}',
     '{"solved": false, "mistake": "", "look_at": ""}', '{"solved": true, "mistake": "", "look_at": 3}',
     '{"solved": false, "mistake": ["x"], "look_at": ""}',
     2 * '{"solved": true, "mistake": "", "look_at": ""}'],
    ids=range(12),
)  # fmt: skip
def test_what_comes_out_of_a_sandbox_is_a_verdict_or_none(said):
    assert _verdict(Ended(said)) == (False, NO_VERDICT, "")


def test_a_limit_that_was_reached_counts_whatever_was_said():
    assert _verdict(Ended('{"solved": true, "mistake": "", "look_at": ""}', "more than 9 s")) == (
        False,
        "more than 9 s",
        "",
    )


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch, math\nfrom labkit.algorithms.ring import all_reduce_ring\nrank", []),
        ("import os, torch", ["import os"]),
        ("from labkit.exercises import catalogue", ["import labkit.exercises"]),
        ("from . import x", ["import ."]),
        ("x = __import__('os')\neval('1')\neval('2')", ["__import__", "eval"]),
        ("def f(:", []),
    ],
)
def test_what_no_exercise_needs_is_named(source, names):
    assert unusual(source) == names
