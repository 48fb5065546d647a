"""Exercises whose function is called several times on each rank: with each case of a list that is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labkit.exercises.describe import Answers
from labkit.exercises.judge import LikeSolution, agree, different, numbers, show


def each(function: Callable[..., Any], arguments: tuple) -> list:
    """Call the function with each case of the list that is its only argument; return a list of results."""
    return [function(*case) for case in arguments[0]]


class EachLikeSolution(LikeSolution):
    """Compares with the solution, and shows the first case that is wrong with what is expected of it."""

    def __call__(self, answers: Answers) -> str:
        wrong = self.wrong(answers)
        if not wrong:
            return ""
        pairs = zip(answers.found[wrong[0]], answers.expected[wrong[0]], strict=True)
        case = next(n for n, pair in enumerate(pairs) if not agree(*pair, self.tolerance))
        found, expected = ([values[case] for values in own] for own in (answers.found, answers.expected))
        said = different(replace(answers, found=found), expected, wrong, self.tolerance)
        arguments = answers.arguments[wrong[0]][0][case]
        given = ", ".join(map(_short, arguments))
        return said.replace("\n", f"\n  rank {wrong[0]} was called with {given}\n", 1)


def _short(value: object) -> str:
    """An argument as it would be written, and of a long list of numbers the first ones."""
    long = isinstance(value, list) and len(value) > 1 and numbers(value) is not None
    return show(value) if long else repr(value)
