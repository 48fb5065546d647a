"""`labkit stop`: end every lab of this user on this machine."""

import shutil

from labkit.launch import processes, slurm
from labkit.launch.runtime import RUNTIME


def main(arguments: list[str]) -> int:
    """End what carries labkit's mark and is ours, by pid and start time."""
    for marker in RUNTIME.glob(f"*/{slurm.MARKER}"):
        slurm.cancel(marker.parent.name)
    found = processes.of_any_lab()
    processes.end(found)
    for folder in RUNTIME.glob("*"):
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(found)} processes ended" if found else "no lab is running")
    return 0
