"""How hosts are named, and how many ranks each takes."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from labkit import LabError


@dataclass(frozen=True)
class Host:
    """A host as ssh knows it, and how many ranks it takes."""

    name: str
    slots: int = 1


def parse(text: str) -> tuple[Host, ...]:
    """Hosts from "a:2,b:2", or from a file that names one per line, as "a:2" or "a slots=2".

    No text, no hosts.

    >>> parse("miriad2a:2,miriad2b")
    (Host(name='miriad2a', slots=2), Host(name='miriad2b', slots=1))
    """
    if not text:
        return ()
    if os.sep in text:
        if not Path(text).is_file():
            raise LabError(
                f"hosts from {text}", "there is no such file", "write hosts as a:2,b:2, or such a file"
            )
        try:
            lines = Path(text).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise LabError(f"hosts from {text}", str(error), "name a text file that you can read") from None
        text = ",".join(line.partition("#")[0] for line in lines)
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    hosts = tuple(_host(entry) for entry in entries)
    names = [host.name for host in hosts]
    if not hosts or len(set(names)) < len(names):
        raise LabError(f"hosts {text!r}", "it names no host, or one twice", "write each once: a:2,b:2")
    return hosts


def _host(entry: str) -> Host:
    named = re.fullmatch(r"([A-Za-z0-9][\w.-]*)(?:(?:\s*:\s*|\s+slots\s*=\s*)(\d+))?", entry)
    if not named or named[2] == "0":
        raise LabError(
            f"host {entry!r}",
            "not a name with a number of slots",
            "write a:2 or a; user and port belong into ssh's configuration",
        )
    return Host(named[1], int(named[2] or 1))
