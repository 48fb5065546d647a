"""A million characters do not freeze a page, and none of them is lost."""

import re
import stat
from pathlib import Path

from labkit.lab.display.long_output import MAX_CHARACTERS, MAX_LINES, shortened
from labkit.lab.display.said import Said, text


def test_short_output_is_left_alone():
    said = (Said(0, "x\n" * 10), Said(1))
    assert shortened(said) == said


def check(printed):
    said = (Said(0, printed), Said(1, printed))
    short = shortened(said)
    shown = short[0].stdout
    assert len(shown) <= MAX_CHARACTERS + 500 and shown.count("\n") <= MAX_LINES + 2
    assert short[0].stdout == short[1].stdout, "equal output stays equal"
    file = Path(re.search(r"the whole is in (\S+)", shown).group(1))
    assert file.read_text() == text(said) and stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    return shown


def test_ten_thousand_lines():
    shown = check("".join(f"line {i}\n" for i in range(10_000)))
    assert shown.startswith("line 0\n") and shown.endswith("line 9999") and "10,000 lines" in shown


def test_one_line_of_a_million_characters():
    check("x" * 1_000_000)
