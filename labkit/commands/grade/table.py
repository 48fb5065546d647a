"""What came of it: a table for a spreadsheet, and a page for a teacher.

Names, verdicts and sources are other people's text: neither a spreadsheet nor a browser may take it for more.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from html import escape

from labkit.commands.grade.again import NUMBER, Result

COLUMNS = ("learner", "file", "lesson", "exercise", "solved", "mistake", "was told", "agrees", "look at")
MARK = "<!-- made by labkit grade -->"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
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
    answers = yes[result.solved], result.mistake, told, yes[result.agrees]
    return (result.learner, result.file, result.lesson, result.exercise, *answers, result.look_at)


def _plain(cell: str) -> str:
    """Never a formula: that is what a spreadsheet takes a cell for that begins like one."""
    cell = " ".join(cell.split())
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


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
    rows = []
    for (learner, file), answers in by_learner.items():
        solved = sum(result.solved for result in answers.values())
        rows.append(
            [learner, file, f"{solved} of {len(asked)}", *(_cell(answers.get(name)) for name in asked)]
        )
    names = ["learner", "file", "solved", *(f"{NUMBER[name]} {name}" for name in asked)]
    return _table("Who solved what", names, rows)


def _cell(result: Result | None) -> str:
    return "not handed in" if result is None else "solved" if result.solved else result.mistake


def _mistakes(results: Sequence[Result]) -> str:
    made: dict[tuple[str, str], list[str]] = defaultdict(list)
    for result in results:
        if not result.solved:
            made[result.exercise, result.mistake].append(result.learner)
    order = sorted(made.items(), key=lambda item: (-len(item[1]), list(NUMBER).index(item[0][0])))
    rows = [[f"{NUMBER[name]} {name}", what, str(len(who)), ", ".join(who)] for (name, what), who in order]
    return _table("Mistakes, the most frequent first", ["exercise", "mistake", "made by", "who"], rows)


def _otherwise(results: Sequence[Result]) -> str:
    rows = [[r.learner, f"{r.lesson} {r.exercise}", _row(r)[6], _cell(r)] for r in results if not r.agrees]
    return _table("Learners who were told otherwise", ["learner", "exercise", "was told", "is"], rows)


def _to_look_at(results: Sequence[Result]) -> str:
    rows = [[r.learner, f"{r.lesson} {r.exercise}", r.look_at] for r in results if r.look_at]
    return _table(
        "Answers to look at: they name what no exercise needs", ["learner", "exercise", "names"], rows
    )


def _table(caption: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "\n".join(f"<tr>{''.join(map(_td, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption>\n<tr>{head}</tr>\n{body}\n</table>"


def _td(cell: str) -> str:
    return f'<td class="solved">{cell}</td>' if cell == "solved" else f"<td>{escape(cell)}</td>"
