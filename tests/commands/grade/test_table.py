"""A table and a page of what other people wrote: neither a spreadsheet nor a browser takes it for more."""

import csv
import io
import re
import unicodedata
from html.parser import HTMLParser

import pytest

from labkit.commands.grade.again import NO_VERDICT, Result, _verdict
from labkit.commands.grade.sandbox import Ended
from labkit.commands.grade.table import _STYLE, COLUMNS, as_csv, as_page
from labkit.commands.grade.unusual import LONGEST, unusual
from labkit.exercises.catalogue import LESSONS, exercise_named
from labkit.exercises.mistake import name as made_by

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


# What some spreadsheet takes for a formula, as it stands or cut at a separator of its own.
FORMULAS = [
    "=",
    "+",
    "-",
    "@",
    "\t=",
    "\r=",
    "\n=",
    " =",
    "\u3000=",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
    "\ufe62",
    "a;=",
    "a|@",
    "a,;+",
    '"=',
    "';=",
    "x;\t=",
    "\ufeff=",
    "\x00=",
    "\x1b=",
    "a;\uff1d",
]


@pytest.mark.parametrize("begins", FORMULAS, ids=ascii)
def test_no_cell_is_a_formula_in_any_form(begins):
    text = as_csv([result(learner=f'{begins}HYPERLINK("http://x")', look_at=f"{begins}1")])
    names, row = csv.reader(io.StringIO(text))
    assert tuple(names) == COLUMNS and len(row) == len(COLUMNS) and text.count("\n") == 2
    for cell in row:
        for part in re.split(r"[;|,\t]", unicodedata.normalize("NFKC", cell)):
            assert not part.strip(" '\"").startswith(("=", "+", "-", "@")) or part.lstrip().startswith("'"), (
                cell
            )
        assert cell.isprintable()


@pytest.mark.parametrize("name", ["solved", "“solved”", "SOLVED", "solved ", "not handed in", "yes"])
def test_a_mistake_that_is_called_right_is_not_shown_as_right(name):
    """The name of an exception is its author's choice."""
    mistake = made_by(f"not solved yet: in a world of 2, ranks 0-1: {name}: no")
    made = [result(solved=False, mistake=mistake), result("Bob"), result("Eve", solved=False, mistake=name)]
    page = as_page(made, {})
    green = re.findall(r'<td class="solved">(.*?)</td>', page)
    assert green == ["<bdi>solved</bdi>"] and page.count('<td class="not">') == 4
    rows = list(csv.DictReader(io.StringIO(as_csv(made))))
    assert rows[2]["mistake"] == f"“{name}”" and [row["solved"] for row in rows] == [
        "no",
        "yes",
        "no",
    ]


def test_known_mistakes_stand_without_quotes():
    names = ["deadlock", "ValueError", "That is the sum: divide it by the number of ranks", NO_VERDICT]
    page = as_page([result(solved=False, mistake=name) for name in [*names, "more than 180 s"]], {})
    assert "“" not in page


@pytest.mark.parametrize(
    "sign", ["\x1b[2J", "\r", "\n", "\u202e", "\u2066", "\0", "\x9b31m", "\u2028"], ids=ascii
)
def test_no_sign_acts_unseen_and_no_text_is_endless(sign):
    long = f"{sign}A" * 100_000
    made = [result(learner=long, solved=False, mistake=long, look_at=long)]
    for text in (as_csv(made), as_page(made, {long: long})):
        assert sign == "\n" or sign not in text.replace(_STYLE, "")
        assert len(text) < 12_000


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
    ["", "{", "[]", "[" * 100_000, "null", '{"solved": 1, "mistake": "", "refused": ""}', '{"solved": true}',
     '{"solved": true, "mistake": "deadlock", "refused": ""}',
     '{"solved": false, "mistake": "", "refused": ""}', '{"solved": true, "mistake": "", "refused": 3}',
     '{"solved": false, "mistake": ["x"], "refused": ""}',
     2 * '{"solved": true, "mistake": "", "refused": ""}'],
    ids=range(12),
)  # fmt: skip
def test_what_comes_out_of_a_sandbox_is_a_verdict_or_none(said):
    assert _verdict(Ended(said)) == (False, NO_VERDICT, NO_VERDICT)


def test_a_limit_that_was_reached_counts_whatever_was_said():
    assert _verdict(Ended('{"solved": true, "mistake": "", "refused": ""}', "more than 9 s")) == (
        False,
        "more than 9 s",
        "more than 9 s",
    )


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch, math\nfrom labkit.algorithms import all_reduce_naive\nrank", []),
        ("import os, torch", ["import os"]),
        ("from labkit.algorithms import shard", ["import labkit.algorithms"]),
        ("from labkit.exercises import catalogue", ["import labkit.exercises"]),
        ("from . import x", ["import ."]),
        ("x = __import__('os')\neval('1')\neval('2')", ["__import__", "eval"]),
        ("torch.os.system('x')\nf.__globals__", [".__globals__", ".os"]),
        ("def f(:", ["what is no Python alone"]),
        ("!cat /etc/passwd", ["what is no Python alone"]),
        ("(" * 5000, ["what is no Python alone"]),
        ("-" * (LONGEST - 1) + "1", ["what is no Python alone"]),
        ("x" * (LONGEST + 1), ["100,001 characters"]),
    ],
    ids=range(12),
)
def test_what_no_exercise_needs_is_named(source, names):
    assert unusual(source, exercise_named("mean_loss")) == names


def test_no_solution_and_no_stub_is_named():
    asked = [exercise for lesson in LESSONS for exercise in lesson.exercises]
    assert {e.name: names for e in asked if (names := unusual(e.solution, e) + unusual(e.stub, e))} == {}
