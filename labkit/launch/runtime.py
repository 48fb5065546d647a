"""Where running labs have their folders, and what it means if nothing can be written there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

from labkit import LabError

RUNTIME = Path(jupyter_runtime_dir(), "labkit")
"""Where each running lab has a folder of its own, private to the user, named by its id."""
WHERE = "where"
"""In it: of which machine it is, for several may share this place."""


@contextmanager
def with_room() -> Iterator[None]:
    """LabError where the system refuses a file, a process or a socket that a lab needs."""
    try:
        yield
    except OSError as error:
        fix = f"see that {RUNTIME} can be written and has room, or set JUPYTER_RUNTIME_DIR to another folder"
        raise LabError("a lab", f"the system says: {error}", fix) from error
