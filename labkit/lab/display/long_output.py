"""Long output, shortened for the page and kept whole in a file."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from labkit.lab.display.said import Said, text

MAX_LINES, MAX_CHARACTERS = 400, 40_000
"""What one rank may show of one cell: a notebook that stores more is slow to open."""


def shortened(said: tuple[Said, ...]) -> tuple[Said, ...]:
    """The same, with long printed output cut in its middle and a note of where the whole is."""
    if not any(map(_is_long, said)):
        return said
    try:
        file = str(_keep(text(said)))
    except OSError as error:
        file = f"no file ({error})"
    return tuple(replace(s, stdout=_cut(s.stdout, file)) if _is_long(s) else s for s in said)


def _is_long(said: Said) -> bool:
    return len(said.stdout) > MAX_CHARACTERS or said.stdout.count("\n") > MAX_LINES


def _cut(printed: str, file: str) -> str:
    lines = printed.splitlines()
    half = MAX_LINES // 2
    first, last = _within(lines[:half]), _within(lines[max(half, len(lines) - half) :])
    note = f"... {len(printed):,} characters in {len(lines):,} lines; the whole is in {file} ..."
    return "\n".join([*first, note, *last])


def _within(lines: list[str]) -> list[str]:
    share = MAX_CHARACTERS // 2 // max(1, len(lines))
    return lines if sum(map(len, lines)) <= MAX_CHARACTERS // 2 else [line[:share] for line in lines]


def _keep(whole: str) -> Path:
    folder = Path(tempfile.gettempdir(), f"labkit-output-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="cell-", suffix=".txt", dir=folder)  # 0600
    with open(handle, "w") as file:
        file.write(whole)
    return Path(name)
