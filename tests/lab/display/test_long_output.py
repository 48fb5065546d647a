"""A million characters do not freeze a page, and none of them is lost."""

import os
import re
import stat
import tempfile
from pathlib import Path

import pytest

from labkit.lab.display.long_output import MAX_CHARACTERS, MAX_LINES, shortened
from labkit.lab.display.said import Said, text
from tests import accounts


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


PLANTED = ["a link", "a file", "open to all", pytest.param("another's", marks=accounts.as_root)]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_folder_that_somebody_else_has_put_there_gets_none_of_it(tmp_path, monkeypatch, planted):
    """Its name in the folder of temporary files, where all may write, is known before."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, theirs = tmp_path / f"labkit-output-{os.geteuid()}", tmp_path / "theirs"
    theirs.mkdir()
    if planted == "a link":
        folder.symlink_to(theirs)
    elif planted == "a file":
        folder.touch()
    else:
        folder.mkdir(mode=0o700)
        folder.chmod(0o777 if planted == "open to all" else 0o700)
        os.chown(folder, 65534 if planted == "another's" else -1, -1)
    made = []
    monkeypatch.setattr(Path, "unlink", lambda file: made.append(file))
    check("x" * 2 * MAX_CHARACTERS)
    (file,) = made
    assert file.parent not in (folder, theirs) and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not any(theirs.iterdir()) and (planted == "a file" or not any(folder.iterdir()))
