"""A start that failed is told in a sentence that a newcomer can act on."""

import resource
import subprocess
import sys

import psutil
import pytest

from labkit import LabError, launch
from labkit.launch import no_start
from labkit.launch.engines import Engines
from labkit.launch.living import identity
from tests import accounts

TORCH = "ModuleNotFoundError: No module named 'torch.distributed'; 'torch' is not a package"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (TORCH, "torch.py in {} hides the module torch"),
        (
            "ImportError: cannot import name 'x' from 'torch' (torch.py)",
            "torch.py in {} hides the module torch",
        ),
        ("ModuleNotFoundError: No module named 'mpi4py.MPI'", "the ranks lack the module mpi4py"),
        ("Bus error (core dumped)", "the ranks' shared memory is full"),
        ("OSError: [Errno 12] Cannot allocate memory", "there was not enough memory for so many ranks"),
        ("zmq.error.ZMQError: Too many open files", "a program of yours may have {files} files open at once"),
        ("something else", ""),
    ],
)
def test_known_stories(tmp_path, said, found):
    (tmp_path / "torch.py").touch()
    told, fix = no_start.why(f"Traceback ...\n{said}\nlabkit: the fork server has ended", tmp_path)
    found = found.format(tmp_path, files=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    assert told.startswith(found) and (found or not told) and fix


@pytest.mark.ranks
def test_a_file_that_hides_torch_is_named(tmp_path, monkeypatch):
    (tmp_path / "torch.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError) as caught:
        Engines.start(launch.plan(2), identity(psutil.Process()))
    assert caught.value.found == f"torch.py in {tmp_path} hides the module torch"
    assert caught.value.fix == "rename torch.py, then start again"


START = """
import labkit
try:
    labkit.start(2).stop()
except labkit.LabError as error:
    print(error)
"""
LIMITS = {
    "ulimit -n 64": ("a program of yours may have 64 files open at once", "ulimit -n 1024"),
    "ulimit -u 30": ("this user may have 30 processes and threads at once", "ulimit -u 4096"),
    "umask 777": ("your umask is 777", "umask 022"),
    "mount": ("this user cannot write into /dev/shm", "as root: mount -o remount,rw /dev/shm"),
}


@pytest.mark.ranks
@pytest.mark.slow
@accounts.as_root
@pytest.mark.parametrize("limit", LIMITS)
def test_what_a_user_may_not_do_here_is_named(limit):
    """As that user: none of these limits holds root."""
    found, fix = LIMITS[limit]
    held = "true" if limit == "mount" else limit
    program = accounts.command(54323, "bash", "-c", f'{held}; exec "$@"', "bash", sys.executable, "-c", START)
    if limit == "mount":
        before = 'mount -t tmpfs -o ro none /dev/shm; exec "$@"'
        program = ["unshare", "--mount", "sh", "-c", before, "sh", *program]
    with accounts.home(54323) as home:
        env = accounts.environment(home)
        told = subprocess.run(program, capture_output=True, text=True, env=env, cwd="/", timeout=150)
    assert f"found: {found}" in told.stdout and f"fix:   {fix}" in told.stdout, told
