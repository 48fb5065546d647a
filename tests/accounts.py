"""Programs run as another account of this machine, one that has no rights; for tests that root runs."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

as_root = pytest.mark.skipif(
    os.geteuid() != 0 or not sys.platform.startswith("linux"),
    reason="only root on Linux takes other accounts",
)
ROOT = Path(__file__).parents[1]
_BEGIN = """
set -e
uid=$1; shift
while [ "$1" != -- ]; do
    kept=$(mktemp -d); mount --bind "$2" "$kept"
    mount -t tmpfs -o mode=755 none "$1"; mkdir -p "$2"; mount --bind "$kept" "$2"
    shift 2
done
shift
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"
"""


def command(uid: int, *program: str) -> list[str]:
    """The program as that account, which can read this Python and labkit wherever they lie."""
    pairs = [word for path in (Path(sys.base_prefix).resolve(), ROOT) for word in _opened(path)]
    return ["unshare", "--mount", "sh", "-c", _BEGIN, "sh", str(uid), *pairs, "--", *program]


def _opened(path: Path) -> list[str]:
    """The topmost folder above it that is closed to others, and the path."""
    closed = [up for up in reversed(path.parents) if not up.stat().st_mode & 0o005 == 0o005]
    return [str(closed[0]), str(path)] if closed else []


def environment(home: Path) -> dict[str, str]:
    """As of somebody who has just logged in; home is theirs."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return kept | {"HOME": str(home), "PYTHONPATH": str(ROOT), "LABKIT_SPARE": "0", "LABKIT_DEVICE": "cpu"}


@contextmanager
def home(uid: int) -> Iterator[Path]:
    """A folder of the account's, where it can come to it: pytest's are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="labkit-account-"))
    os.chown(folder, uid, uid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
