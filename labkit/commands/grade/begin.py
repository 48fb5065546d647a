"""The first that runs in a sandbox: out of reach of all that follows, what is right in its memory alone.

A script of its own: to import anything of labkit's exercises is to read the lessons as answers may read them.
"""

from __future__ import annotations

import ctypes
import json
import marshal
import os
import resource
import socket
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

NOT_DUMPABLE = 4
"""Of prctl: from then on no other process of this user reads or changes this one."""


def main() -> None:
    """Be told by the descriptor that the last argument names what to judge, and judge it."""
    del sys.path[0]  # this script's folder
    with _out_of_reach(int(sys.argv[-1])) as channel:
        with channel.makefile("rb") as told:
            asked = json.loads(told.readline())
            _unveil(told.read())
        _limit(**asked["limits"])
        from labkit.commands.grade import inside

        inside.judge(asked["exercise"], asked["source"], channel)
    os._exit(0)  # the end of the sandbox ends the lab


def _out_of_reach(number: int) -> socket.socket:
    """The channel where no other process finds it: not inherited, and this process closed to others."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(NOT_DUMPABLE, 0, 0, 0, 0)
    channel = socket.socket(fileno=number)
    channel.set_inheritable(False)
    return channel


def _unveil(lessons: bytes) -> None:
    """What is in lessons for this process alone, in place of the files that answers can read, too."""
    whole, usual = marshal.loads(lessons), SourceFileLoader.get_code

    def code(loader: Any, name: str) -> Any:
        return whole[loader.path] if loader.path in whole else usual(loader, name)

    SourceFileLoader.get_code = code  # type: ignore[method-assign, assignment]


def _limit(memory: int, disk: int, processes: int) -> None:
    """What the kernel itself holds this process and all that it begins to; and whom it ends first."""
    with suppress(OSError):  # only Linux has it
        Path("/proc/self/oom_score_adj").write_text("1000")
    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: disk,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in limits.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
