"""Lesson 25's one loop runs every strategy with 2 and 3 ranks, too; the lesson itself has 4."""

import nbformat
import pytest

from tests.lessons import lesson

pytestmark = [pytest.mark.ranks, pytest.mark.slow]


def strategies() -> list[str]:
    """The cells that make the strategies, and the one that compares their weights with one process's."""
    cells = [c.source for c in nbformat.read(lesson("25"), as_version=4).cells if c.cell_type == "code"]
    first = next(n for n, source in enumerate(cells) if "def matrices" in source)
    last = next(n for n, source in enumerate(cells) if "inexact = Single()" in source)
    return [source.removeprefix("%%px\n") for source in cells[first : last + 1]]


@pytest.mark.parametrize("ranks", (2, pytest.param(3, marks=pytest.mark.nightly)))
def test_every_strategy_runs_and_the_exact_ones_are(labs, ranks):
    lab = labs(ranks)
    for source in strategies():
        lab[:].execute(source, block=True)
    lab[:].execute("found = {name: train(name, 5)[1] for name in STRATEGIES}", block=True)
    losses = lab[:]["found"]
    assert len(losses[0]) == 9
    for name in losses[0]:
        told = [own[name] for own in losses if own[name][0] is not None]
        mean = [sum(step) / len(told) for step in zip(*told, strict=True)]
        assert mean[0] == pytest.approx(2.5, abs=0.3) and min(mean) < mean[0], name
