"""What a learner lets the teacher see, and only after saying so.

That is which exercises were tried, which are solved, and what the mistake in the others is called. No answer,
no number and no time is among it.
"""

from __future__ import annotations

import getpass
import json
import os
import stat
from pathlib import Path

from labkit import LabError
from labkit.exercises import mistake, progress_file
from labkit.launch import private

CLASS = "LABKIT_CLASS"
"""Where a hub says which folder is this learner's among those that the teacher sees."""
FILE = "shared.json"


def begin(folder: Path | None = None) -> Path:
    """Share from now on, in that folder of the class or in the hub's; returns the file that is shared."""
    told = os.environ.get(CLASS)
    if folder is None and not told:
        fix = "labkit share FOLDER, with the folder that your teacher names"
        raise LabError("to share your progress", "there is no hub here that says where", fix)
    mine = Path(told) if folder is None else _mine(folder)
    progress_file.folder().mkdir(parents=True, exist_ok=True)
    private.write(_consent(), str((mine / FILE).resolve()), mode=0o600)
    _write(mine / FILE)
    return mine / FILE


def end() -> Path | None:
    """Share no more, and take away what was shared: the file that is gone now, or None."""
    file = shared()
    _consent().unlink(missing_ok=True)
    if file:
        file.unlink(missing_ok=True)
    return file


def shared() -> Path | None:
    """The file in which the teacher sees this learner's progress; None if the learner has not said so."""
    try:
        return Path(_consent().read_text())
    except FileNotFoundError:
        return None


def renew() -> None:
    """What was shared, as it is now; nothing if nothing is shared. LabError if it cannot be written."""
    file = shared()
    if file:
        _write(file)


def standing() -> dict[str, str]:
    """Of each exercise that was tried: what the mistake is called, "" if it is solved."""
    kept = progress_file.read()
    found = {name: mistake.name(answer["told"]) for name, answer in kept["answers"].items()}
    return found | dict.fromkeys(kept["exercises"], "")


def _write(file: Path) -> None:
    """For the learner, and for the group of a folder that hands its group down."""
    asked, fix = "to share your progress", "ask who teaches; `labkit share --stop` ends this"
    try:
        if not file.parent.is_dir():
            raise LabError(asked, f"{file.parent} is gone", fix)
        mode = 0o640 if file.parent.stat().st_mode & stat.S_ISGID else 0o600
        private.write(file, json.dumps({"exercises": standing()}, indent=1, sort_keys=True), mode=mode)
        file.chmod(mode)  # whatever the umask is
    except OSError as error:  # as of a folder that is closed to its learners
        raise LabError(asked, str(error), fix) from None


def _mine(folder: Path) -> Path:
    """This user's own folder in that of a class."""
    if not folder.is_dir():
        raise LabError(f"to share your progress in {folder}", "there is no such folder", "ask who teaches")
    mine = folder.resolve() / getpass.getuser()
    before = os.umask(0)  # a mode that is set later would take the group away from who is not in it
    try:
        mine.mkdir(mode=0o750 if folder.stat().st_mode & stat.S_ISGID else 0o700, exist_ok=True)
        if not private.is_mine(mine):
            raise LabError(f"a folder of yours, {mine}", "it is somebody else's", "ask who teaches")
    except OSError as error:
        raise LabError(f"a folder of yours, {mine}", str(error), "ask who teaches") from None
    finally:
        os.umask(before)
    return mine


def _consent() -> Path:
    return progress_file.folder() / "shared_with_the_teacher"
