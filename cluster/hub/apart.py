"""A place for one learner, by bubblewrap: a home, and of the machine only what all may read.

Inside there are no processes but the learner's own, no shared memory, no temporary files, no keys and no home
of anybody else. All that is not the learner's home is read-only. When the place's first process ends, for
whatever reason, the kernel ends every process in it, and shared memory and temporary files go with them.
"""

import pwd
import sys
from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path

from labkit.launch import keyless

GPUS = ("/dev/nvidia*", "/dev/kfd", "/dev/dri")
HIDDEN = ("/home", "/root", "/tmp", "/var/tmp", "/run", "/dev/shm")
"""Others' homes, files that all could write, and sockets of services that would act for the learner."""
FOR_ALL = ("/tmp", "/var/tmp", "/dev/shm")
"""In which each learner can make files, each one's own."""
NEEDED = ("/run/systemd/resolve",)
"""What is needed of those: how names of hosts are resolved."""


def command(
    home: Path,
    *,
    account: str = "",
    hidden: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    room: int = 0,
) -> list[str]:
    """What to put before a command, so that it runs in such a place, in that home.

    `account` is who it shall run as, where root starts it; without that it is whoever starts it. `hidden` are
    more folders that are not to be seen, `writable` some in them that are; `room` is how many bytes of shared
    memory, and how many of temporary files, there can be.
    """
    size = ["--size", str(room)] if room else []
    made = ["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    made += [] if account else ["--unshare-user", "--cap-drop", "ALL"]
    made += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    for device in sorted(path for pattern in GPUS for path in glob(pattern)):
        made += ["--dev-bind-try", device, device]
    usual = [*map(Path, HIDDEN), Path.home()]
    made += _empty(usual, size)
    for path in (*map(Path, NEEDED), *_installed()):
        made += [*_way_to(path, usual), "--ro-bind-try", str(path), str(path)]
    for told in keyless.TOLD:
        made += ["--ro-bind-try", "/dev/null", told]
    made += _empty(hidden, size)  # may lie in what is shared, as in a clone of labkit
    for path in (home, *writable):
        made += [*_way_to(path, [*usual, *hidden]), "--bind", str(path), str(path)]
    made += ["--chdir", str(home), "--"]
    if account:
        group = str(pwd.getpwnam(account).pw_gid)
        made += ["setpriv", "--reuid", account, "--regid", group, "--init-groups", "--no-new-privs"]
        made += ["--inh-caps=-all", "--bounding-set=-all"]
    return keyless.command("bwrap", *made)


def _empty(places: Iterable[Path], size: list[str]) -> list[str]:
    """Nothing is in these folders; what lies within another comes after it."""
    real = sorted({place.resolve() for place in places if place.is_dir()} - {Path("/")})
    return [word for place in real for word in (*size, "--perms", _rights(place), "--tmpfs", str(place))]


def _rights(place: Path) -> str:
    return "1777" if str(place) in FOR_ALL else "0755"


def _way_to(path: Path, emptied: Iterable[Path]) -> list[str]:
    """Folders that lead there where nothing is any more, which everyone may pass."""
    hidden = {place.resolve() for place in emptied}
    gone = [up for up in reversed(path.parents) if hidden & set(up.parents)]
    return [word for up in gone for word in ("--perms", "0755", "--dir", str(up))]


def _installed() -> list[Path]:
    """Where the programs are that learners share, and where Python finds them."""
    found = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, sys.path)]
    real = dict.fromkeys(path.resolve() for path in found if path.is_absolute() and path.exists())
    outside = (*map(Path, ("/usr", "/bin", "/lib")), Path("/"))
    return [path for path in real if path not in outside and not any(p in path.parents for p in outside[:3])]
