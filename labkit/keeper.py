"""A small process that ends what a `kill -9` would leave: of the owner, of the controller, of mpiexec.

Started by path, so that it never imports torch. It has nothing to do but look twice a second; when
one of those is gone it ends the lab's processes. The lab's folder it removes only if the owner is
gone, who would otherwise want to read the log.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import psutil

sys.path[0] = str(Path(__file__).parent)

import processes  # noqa: E402

WATCHED = "watched"
"""The file in the lab's folder that names the lab's own vital processes, once they have started."""


def main(lab_id: str, folder: str, owner: str) -> None:
    owner = processes.parse(owner)
    while processes.is_alive(owner) and all(map(processes.is_alive, vital(Path(folder, WATCHED)))):
        time.sleep(0.5)
    processes.end_lab(lab_id, spare=(os.getpid(),))
    if not processes.is_alive(owner):
        shutil.rmtree(folder, ignore_errors=True)


def vital(file: Path) -> list[psutil.Process | None]:
    """The processes without which the lab is of no use."""
    return [processes.parse(line) for line in file.read_text().splitlines()] if file.exists() else []


if __name__ == "__main__":
    main(*sys.argv[1:])
