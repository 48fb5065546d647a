"""What came of it: a table for a spreadsheet, and a page for a teacher.

Names, verdicts and sources are other people's text: neither a spreadsheet nor a browser may take it for more.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from labkit.commands.grade.again import CODE, NO_VERDICT, NOT_RUN, NUMBER, Result
from labkit.exercises.known import is_known
from labkit.exercises.submission import printable

COLUMNS = ("learner", "file", "lesson", "exercise", "solved", "mistake", "was told", "agrees", "look at")
OURS = {NO_VERDICT, NOT_RUN, CODE}
"""What only grading calls an answer."""
MARK = "<!-- made by labkit grade -->"
QUOTED = "“{}”"
"""What a learner has named, as an error of their own: nothing of the table's own looks like it."""
_FORMULA = re.compile(r"(^|[;,|])([\s'\"]*)(?=[=+\-@])")
"""Where a cell, or what another separator makes of it, begins like a formula."""
_LONGEST = 300
"""Letters of a cell."""
_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 2rem } caption { text-align: left; font-weight: 600 }
th, td { border: 1px solid #bbb; padding: .25rem .6rem; text-align: left; vertical-align: top }
th { background: #f2f2f2 } .solved { background: #e3f1e3 } .not { background: #fbeade }
"""


def as_csv(results: Sequence[Result]) -> str:
    """A row an answer."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows([_plain(cell) for cell in _row(result)] for result in results)
    return text.getvalue()


def _row(result: Result) -> tuple[str, ...]:
    told = "solved" if result.told_solved else result.told_mistake
    yes = ("no", "yes")
    told = told if result.told_solved else _named(told, result.exercise)
    answers = yes[result.solved], _named(result.mistake, result.exercise), told, yes[result.agrees]
    return (result.learner, result.file, result.lesson, result.exercise, *answers, result.look_at)


def _plain(cell: str) -> str:
    """Never a formula: that is what a spreadsheet takes a cell for that begins like one.

    In whatever form: some take wide signs for narrow ones, and some cut at other separators than a comma.
    """
    cell = printable(cell)
    narrow = unicodedata.normalize("NFKC", cell)
    return _FORMULA.sub(r"\1'\2", narrow if _FORMULA.search(narrow) else cell)


def _named(mistake: str, exercise: str) -> str:
    """A mistake as it is called; in quotes if that is none of labkit's names, and a learner may have chosen
    it."""
    ours = not mistake or mistake in OURS or mistake.startswith("more than ") or is_known(mistake, exercise)
    return mistake if ours else QUOTED.format(mistake)


def as_page(results: Sequence[Result], broken: dict[str, str]) -> str:
    """Who solved what, which mistakes were made by how many, and where a learner was told otherwise."""
    parts = [_who(results), _mistakes(results), _otherwise(results), _to_look_at(results)]
    rows = [[file, why] for file, why in broken.items()]
    parts += [_table("Files that cannot be read", ["file", "why"], rows)] if broken else []
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return "\n".join(
        [
            "<!doctype html>",
            MARK,
            '<html lang="en"><head><meta charset="utf-8"><title>What was solved</title>',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<style>\n{_STYLE}</style></head><body><h1>What was solved</h1>",
            *filter(None, parts),
            "</body></html>",
            "",
        ]
    )


def _who(results: Sequence[Result]) -> str:
    by_learner: dict[tuple[str, str], dict[str, Result]] = defaultdict(dict)
    for result in results:
        by_learner[result.learner, result.file][result.exercise] = result
    asked = [name for name in NUMBER if any(result.exercise == name for result in results)]
    rows: list[list[str | Cell]] = []
    for (learner, file), answers in by_learner.items():
        solved = sum(result.solved for result in answers.values())
        rows.append(
            [learner, file, f"{solved} of {len(asked)}", *(_judged(answers.get(name)) for name in asked)]
        )
    names = ["learner", "file", "solved", *(f"{NUMBER[name]} {name}" for name in asked)]
    return _table("Who solved what", names, rows)


def _cell(result: Result | None) -> str:
    if result is None:
        return "not handed in"
    return "solved" if result.solved else _named(result.mistake, result.exercise)


def _mistakes(results: Sequence[Result]) -> str:
    made: dict[tuple[str, str], list[str]] = defaultdict(list)
    for result in results:
        if not result.solved:
            made[result.exercise, _cell(result)].append(result.learner)
    order = sorted(made.items(), key=lambda item: (-len(item[1]), list(NUMBER).index(item[0][0])))
    rows = [[f"{NUMBER[name]} {name}", what, str(len(who)), ", ".join(who)] for (name, what), who in order]
    return _table("Mistakes, the most frequent first", ["exercise", "mistake", "made by", "who"], rows)


def _otherwise(results: Sequence[Result]) -> str:
    rows: list[list[str | Cell]]
    rows = [[r.learner, f"{r.lesson} {r.exercise}", _row(r)[6], _judged(r)] for r in results if not r.agrees]
    return _table("Learners who were told otherwise", ["learner", "exercise", "was told", "is"], rows)


def _to_look_at(results: Sequence[Result]) -> str:
    rows = [[r.learner, f"{r.lesson} {r.exercise}", r.look_at] for r in results if r.look_at]
    return _table(
        "Answers to look at: they name what no exercise needs", ["learner", "exercise", "names"], rows
    )


@dataclass(frozen=True)
class Cell:
    """What a cell of the page says, and of which kind it is: that is never taken from what it says."""

    text: str
    kind: str


def _judged(result: Result | None) -> Cell:
    kind = "" if result is None else "solved" if result.solved else "not"
    return Cell(_cell(result), kind)


def _table(caption: str, names: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "\n".join(f"<tr>{''.join(map(_td, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption>\n<tr>{head}</tr>\n{body}\n</table>"


def _td(cell: str | Cell) -> str:
    told = cell if isinstance(cell, Cell) else Cell(cell, "")
    kind = f' class="{told.kind}"' if told.kind else ""
    return f"<td{kind}><bdi>{escape(printable(told.text, _LONGEST))}</bdi></td>"
