"""A program run between walls, watched and ended: in the end the kernel ends all that it has begun."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from labkit import LabError
from labkit.commands.grade import walls
from labkit.commands.grade.walls import MB, Limits

LOOK_EVERY = 0.1
"""Seconds between two looks at what is used inside."""
LONGEST = 64 * 1024
"""Bytes that are read of what comes out."""
RESERVE = 0.05
"""The part of the machine's memory that must stay free, whoever uses it."""
FULL, MANY = 0.9, 0.4
"""Parts of the processes that it may have: as many as it gets, and far more than a lab of four has."""


@dataclass(frozen=True)
class Ended:
    """What came out, and which limit was reached; "" if none."""

    said: str
    over: str = ""


def require() -> str:
    """The bwrap of this machine, tried. LabError if answers cannot be shut in here."""
    asked, fix = "answers graded in a sandbox", "apt install bubblewrap, or dnf install bubblewrap"
    risk = "; or --no-sandbox, which runs them as you, with your files and your network"
    if not sys.platform.startswith("linux"):
        raise LabError(asked, f"there is none for {sys.platform}", f"grade on Linux{risk}")
    found = shutil.which("bwrap")
    if not found:
        raise LabError(asked, "bwrap, of the package bubblewrap, is not here", f"{fix}{risk}")
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        raise LabError(
            asked, "root needs setpriv, of util-linux, to run them as nobody", f"grade as a user{risk}"
        )
    why = _tried(walls.command(found, ["true"], Limits(), ()))
    if why:
        fix = "let this user make namespaces (user.max_user_namespaces, AppArmor)"
        raise LabError(asked, f"bwrap does not work here: {why}", f"{fix}{risk}")
    return found


def _tried(command: list[str]) -> str:
    """Why it does not work, or ""."""
    try:
        tried = subprocess.run(command, capture_output=True, text=True, env={}, timeout=60)
    except subprocess.TimeoutExpired:
        return "no end within 60 s"
    said = tried.stderr.strip().splitlines() or ["it said nothing"]
    return said[-1] if tried.returncode else ""


def run(
    bwrap: str, program: Sequence[str], given: bytes, limits: Limits, hidden: Sequence[Path] = ()
) -> Ended:
    """Run it with the number of a descriptor as its last argument; `hidden` folders are empty for it.

    On that descriptor, a socket, it is `given` what to do, and says what came of it. Its standard streams
    lead nowhere: bubblewrap's first process, which what runs inside may trace, has those too, and no other
    descriptor. With "" for `bwrap` there are no walls round it, only limits.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        asked = [*program, str(theirs.fileno())]
        process = subprocess.Popen(
            walls.command(bwrap, asked, limits, hidden) if bwrap else asked,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=walls.environment() if bwrap else None,
            start_new_session=not bwrap,
            cwd="/" if bwrap else None,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        said: list[bytes] = []
        reader = threading.Thread(target=lambda: said.extend(_answer(ours, given)), daemon=True)
        reader.start()
        try:
            over = _watch(process, reader, limits)
        finally:
            _end(process)
        reader.join(10)
    return Ended(b"".join(said).decode(errors="replace"), over)


def _answer(channel: socket.socket, given: bytes) -> Iterator[bytes]:
    """What comes back for it, up to LONGEST bytes."""
    left = LONGEST
    with suppress(OSError):  # it has ended
        channel.sendall(given)
        channel.shutdown(socket.SHUT_WR)
        while left and (part := channel.recv(left)):
            left -= len(part)
            yield part


def _watch(process: subprocess.Popen, reader: threading.Thread, limits: Limits) -> str:
    """Until it has said what it has to say; which limit it has reached first, or ""."""
    begun, first = time.monotonic(), psutil.virtual_memory()
    while reader.is_alive() and process.poll() is None:
        reader.join(LOOK_EVERY)
        inside = [_used(pid) for pid in _descendants(process)]
        tasks, memory = sum(used[0] for used in inside), sum(used[1] for used in inside)
        # The kernel lets none be above the limit: whoever is at it, or far on the way, would be.
        if tasks > FULL * limits.processes:
            return f"more than {limits.processes} processes"
        if time.monotonic() - begun > limits.seconds:
            return f"more than {limits.seconds:g} s"
        now, most = psutil.virtual_memory(), limits.memory * MB
        hidden = getattr(now, "shared", 0) - getattr(first, "shared", 0)  # files that only descriptors have
        if max(hidden, memory) > most or now.available < RESERVE * now.total:
            bomb = tasks > MANY * limits.processes
            return f"more than {f'{limits.processes} processes' if bomb else f'{limits.memory} MB of memory'}"
    return ""


def _descendants(process: subprocess.Popen) -> list[int]:
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    return []


def _used(pid: int) -> tuple[int, int]:
    """Its threads, and bytes that only memory holds, own and shared; files of libraries are everybody's."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 1, 0
    told = dict(line.split(":", 1) for line in lines if line.startswith(("Threads", "RssAnon", "RssShmem")))
    kept = (int(told[name].split()[0]) for name in told if name != "Threads")  # a dead one has none
    return int(told.get("Threads", 1)), 1024 * sum(kept)


def _end(process: subprocess.Popen) -> None:
    """With bwrap its first process dies, and the kernel ends whatever was begun inside, at once."""
    for pid in [*_descendants(process), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    process.wait(30)
