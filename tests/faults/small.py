"""A command where there is little shared memory, as in a container, and where nobody else uses it."""

import subprocess

import pytest

_MOUNT = 'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'


def with_shared_memory(size: str, *command: str, seconds: float = 100) -> subprocess.CompletedProcess:
    """Run a command where there is no more than that."""
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        tried = subprocess.run([*own, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("a small /dev/shm needs unshare, which only Linux has")
    if tried.returncode:
        pytest.skip("this system lets nobody mount a small /dev/shm")
    given = [*own, "sh", "-c", _MOUNT.format(size=size), "sh", *command]
    return subprocess.run(given, capture_output=True, text=True, timeout=seconds)
