"""Each exhibit of the hang museum hangs, and labkit says of it what the page says."""

import re
from pathlib import Path

import pytest
from IPython.utils.capture import capture_output

from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from tests.conftest import in_tiers

PAGE = Path(__file__).parents[2] / "notebooks" / "hang_museum.md"
EXHIBIT = re.compile(
    r"^## (\d+\. .*?)\n.*?\]\((https://\S+)\).*?```python\n%%px\n(.*?)```.*?```text\n(.*?)```", re.M | re.S
)
EXHIBITS = EXHIBIT.findall(PAGE.read_text())


def test_there_are_ten_each_with_its_source():
    titles = re.findall(r"^## (\d+)\.", PAGE.read_text(), re.M)
    assert titles == [str(n) for n in range(1, 11)] and len(EXHIBITS) == 10
    assert len({source for _, source, *_ in EXHIBITS}) == 10


@pytest.mark.parametrize(
    ("title", "source", "cell", "told"), in_tiers(EXHIBITS, 2, 3, lambda title, *_: title)
)
def test_an_exhibit_hangs_as_the_page_says(labs, shell, title, source, cell, told):
    with capture_output(), pytest.raises(CellError) as caught:
        PxMagics(shell, labs(4)).cell_px("", cell)
    assert without_numbers(str(caught.value)) == without_numbers(told)


def without_numbers(text):
    """A group counts its collectives, a lab its groups, and a notebook its cells."""
    return re.sub(r"(number |group '|In \[)\d+", r"\1n", text.strip())
