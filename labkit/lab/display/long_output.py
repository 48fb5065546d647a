"""Long output, shortened for the page and kept whole in a file."""

import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from labkit.lab.display.said import Said, text

MAX_LINES, MAX_CHARACTERS = 400, 40_000
"""What one rank may show of a cell, in each stream and text: a notebook that stores more is slow to open."""
MAX_DISPLAYS, MAX_RICH = 100, 5_000_000
"""How many things it may display, and the characters that a picture or a page of HTML may have."""


def shortened(said: tuple[Said, ...]) -> tuple[Said, ...]:
    """The same, with long output cut in its middle and a note of where the whole of its text is."""
    if not any(map(_is_long, said)):
        return said
    try:
        file = str(_keep(text(said)))
    except OSError as error:
        file = f"no file ({error})"
    return tuple(_of_rank(s, file) if _is_long(s) else s for s in said)


def _of_rank(said: Said, file: str) -> Said:
    shown = tuple(_bundle(bundle, file) for bundle in said.displays)
    if (more := len(shown) - MAX_DISPLAYS) > 0:
        half, note = MAX_DISPLAYS // 2, f"... {more:,} displays more; their texts are in {file} ..."
        shown = (*shown[:half], {"text/plain": note}, *shown[-half:])
    return replace(said, stdout=_cut(said.stdout, file), stderr=_cut(said.stderr, file), displays=shown)


def _is_long(said: Said) -> bool:
    parts = (said.stdout, said.stderr, *(bundle.get("text/plain", "") for bundle in said.displays))
    return (
        any(map(_too_long, parts))
        or len(said.displays) > MAX_DISPLAYS
        or any(map(_too_rich, (data for bundle in said.displays for data in bundle.values())))
    )


def _too_long(printed: str) -> bool:
    return len(printed) > MAX_CHARACTERS or printed.count("\n") > MAX_LINES


def _too_rich(data: object) -> bool:
    return len(data if isinstance(data, str) else str(data)) > MAX_RICH


def _bundle(bundle: dict, file: str) -> dict:
    """A MIME bundle without what is too large in it, and a text that says so."""
    kept = {mime: data for mime, data in bundle.items() if not _too_rich(data)}
    lost = [
        f"... {len(str(data)):,} characters of {mime} ..."
        for mime, data in bundle.items()
        if mime not in kept
    ]
    plain = "" if "text/plain" in lost else _cut(kept.pop("text/plain", ""), file)
    written = "\n".join(filter(None, [plain, *lost]))
    return {**kept, **({"text/plain": written} if written else {})}


def _cut(printed: str, file: str) -> str:
    if not _too_long(printed):
        return printed
    lines = printed.splitlines()
    half = MAX_LINES // 2
    first, last = _within(lines[:half]), _within(lines[max(half, len(lines) - half) :])
    note = f"... {len(printed):,} characters in {len(lines):,} lines; the whole is in {file} ..."
    return "\n".join([*first, note, *last])


def _within(lines: list[str]) -> list[str]:
    share = MAX_CHARACTERS // 2 // max(1, len(lines))
    return lines if sum(map(len, lines)) <= MAX_CHARACTERS // 2 else [line[:share] for line in lines]


def _keep(whole: str) -> Path:
    """In a folder that is this user's alone, or in a new one where somebody else has taken its name."""
    folder = Path(tempfile.gettempdir(), f"labkit-output-{os.geteuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o777 != 0o700:
        folder = Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
    handle, name = tempfile.mkstemp(prefix="cell-", suffix=".txt", dir=folder)  # 0600
    with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(whole)
    return Path(name)
