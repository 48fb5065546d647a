"""A small process that outlives its lab's owner by a moment, to end what a `kill -9` would leave.

Started by path with three arguments (lab, owner's pid, owner's start time) and nothing else to do:
it sleeps until the owner is gone, then ends the lab's processes and removes its folder.
"""

import os
import shutil
import sys
from pathlib import Path

import psutil

sys.path[0] = str(Path(__file__).parent)  # by path, so that this process never imports torch

import processes  # noqa: E402


def main(lab_id: str, folder: str, owner_pid: str, owner_started: str) -> None:
    try:
        owner = psutil.Process(int(owner_pid))
        if owner.create_time() == float(owner_started):
            owner.wait()
    except psutil.NoSuchProcess:
        pass
    processes.end_lab(lab_id, spare=(os.getpid(),))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
