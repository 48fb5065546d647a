"""`labkit stop`: end every lab of this user on this machine."""

import shutil
from pathlib import Path

from labkit.launch import processes, slurm
from labkit.launch.runtime import RUNTIME, WHERE


def main(arguments: list[str]) -> int:
    """End what carries labkit's mark and is ours, by pid and start time."""
    elsewhere = {folder: where for folder in RUNTIME.glob("*") if (where := _another_machine(folder))}
    folders = [folder for folder in RUNTIME.glob("*") if folder not in elsewhere]
    for folder in folders:
        if (folder / slurm.MARKER).exists():
            slurm.cancel(folder.name)
    found = processes.of_any_lab()
    processes.end(found)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(found)} processes ended" if found else "no lab is running")
    for name in sorted(set(elsewhere.values())):
        print(f"there are labs of {name}: run `labkit stop` there to end those")
    return 0


def _another_machine(folder: Path) -> str:
    """Whose lab that is, by name, if not this machine's. Several may share the home folder, as in a cluster:
    what runs there goes on, and needs its folder.
    """
    try:
        where = (folder / WHERE).read_text()
    except OSError:  # of an older labkit, or no lab's
        return ""
    return "" if where == processes.here() else where.partition(" ")[0]
