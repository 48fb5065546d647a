"""Something that happens while ranks run a cell, however late the machine lets them begin it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def once_begun(folder: Path, happen: Callable[[], None], after: float = 0.7, ranks: int = 2) -> Iterator[str]:
    """Let it happen that many seconds after all ranks have begun the cell whose first line is the one given.

    `folder` is empty, and the ranks' too. Nothing happens once the block has been left.
    """
    left = threading.Event()

    def wait() -> None:
        while len(list(folder.iterdir())) < ranks:
            if left.wait(0.02):
                return
        if not left.wait(after):
            happen()

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        yield f"open({str(folder)!r} + f'/{{rank}}', 'w').close()\n"
    finally:
        left.set()
        waiting.join()
