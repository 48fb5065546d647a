"""Scripts that know nothing of labkit run under mpiexec, and no import of torch suffers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import launcher

# In a function, as scripts are: gloo's threads end with its group, and one that is still letting go of
# a tensor when the interpreter is being torn down aborts the process, with or without another backend.
SCRIPT = """
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("mpi")
    t = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(t)
    group = dist.new_group(backend="gloo")
    u = torch.ones(1)
    dist.all_reduce(u, group=group)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {t.item():g} {u.item():g}")
    dist.destroy_process_group()

main()
"""

LOADED = """
import sys
import torch
names = "mpi4py", "labkit.mpi.group", "IPython", "ipyparallel", "zmq", "matplotlib", "psutil"
heavy = [name for name in names if name in sys.modules]
print("mpi", torch.distributed.is_mpi_available(), "heavy", heavy)
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> str:
    """The entry point as an installation of this source tree declares it, first on the path.

    An environment may hold another version of labkit; what is tested is this one.
    """
    declared = []
    wanted = False
    for line in (launcher.REPOSITORY / "pyproject.toml").read_text().splitlines():
        if line.startswith("["):
            wanted = line.strip() == '[project.entry-points."torch.backends"]'
        elif wanted and "=" in line:
            declared.append(line.replace('"', ""))
    assert declared, "pyproject.toml declares no entry point in torch.backends"
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "labkit-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: labkit\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\n" + "\n".join(declared) + "\n")
    return os.pathsep.join([str(folder), str(launcher.REPOSITORY)])


def python(code: str, path: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess:
    names = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "LABKIT_MPI")
    clean = {k: v for k, v in os.environ.items() if k not in names}
    env = clean | {"PYTHONPATH": path} | extra
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("ranks", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4)), 2])
def test_an_unmodified_script_runs_under_mpiexec(installed, tmp_path, ranks):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    finished = launcher.run(ranks, [str(script)], tmp_path / "output.txt", 150, PYTHONPATH=installed)
    assert finished.code == 0, finished.output
    for rank in range(ranks):
        total = ranks * (ranks + 1) // 2
        assert f"rank {rank} of {ranks}: {total} {ranks}" in finished.output


def test_a_rank_that_raises_ends_the_world(installed, tmp_path):
    """The others wait for it in a collective; without help they would for ever."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("t = ", "assert dist.get_rank() != 1, 'on purpose'\n    t = ", 1))
    finished = launcher.run(2, [str(script)], tmp_path / "output.txt", 120, PYTHONPATH=installed)
    assert not finished.timed_out and finished.code != 0
    assert "on purpose" in finished.output


def test_a_rank_that_exits_with_a_failure_ends_the_world(installed, tmp_path):
    script = tmp_path / "script.py"
    leaving = "if dist.get_rank() == 1:\n        sys.exit(3)\n    t = "
    script.write_text("import sys\n" + SCRIPT.replace("t = ", leaving, 1))
    finished = launcher.run(2, [str(script)], tmp_path / "output.txt", 120, PYTHONPATH=installed)
    assert not finished.timed_out and finished.code == 3, finished.output


def test_a_rank_that_exits_in_good_order_ends_nobody(installed, tmp_path):
    """Nor does one that has caught an exit, and looked at its code."""
    script = tmp_path / "script.py"
    caught = "\ntry:\n    sys.exit(3)\nexcept SystemExit as left:\n    assert left.code == 3\nsys.exit(0)\n"
    script.write_text("import sys\n" + SCRIPT + caught)
    finished = launcher.run(2, [str(script)], tmp_path / "output.txt", 120, PYTHONPATH=installed)
    assert finished.code == 0, finished.output
    assert "rank 1 of 2: 3 2" in finished.output


def test_outside_a_launcher_torch_is_as_it_was(installed, tmp_path):
    found = python(LOADED, installed, tmp_path)
    assert found.stdout.split("\n")[0] == "mpi False heavy []", found.stdout + found.stderr


def test_under_a_launcher_nothing_heavy_is_imported(installed, tmp_path):
    found = python(LOADED, installed, tmp_path, PMI_RANK="0")
    assert found.stdout.split("\n")[0] == "mpi True heavy []", found.stdout + found.stderr


FAULTS = ("raise RuntimeError('broken')", "import no_such_module", "not python")


@pytest.mark.parametrize("fault", [FAULTS[0], *(pytest.param(f, marks=pytest.mark.slow) for f in FAULTS[1:])])
def test_no_fault_of_ours_breaks_the_import_of_torch(installed, tmp_path, fault):
    """A copy of the package in which what the entry point calls is broken."""
    shutil.copytree(launcher.REPOSITORY / "labkit", tmp_path / "labkit")
    (tmp_path / "labkit" / "mpi" / "registration.py").write_text(fault + "\n")
    path = os.pathsep.join([str(tmp_path), installed.split(os.pathsep)[0]])
    found = python("import torch; print('imported')", path, tmp_path, PMI_RANK="0")
    assert "imported" in found.stdout, found.stderr


@pytest.mark.slow
def test_the_entry_point_takes_less_than_ten_milliseconds(installed, tmp_path):
    """The best of several processes, in processor time: what it costs, and not what else the machine did."""
    code = (
        "import torch, time, sys\n"
        "for name in [m for m in sys.modules if m.startswith('labkit')]: del sys.modules[name]\n"
        "began = time.process_time()\n"
        "from labkit.mpi.entry import load; load()\n"
        "print(time.process_time() - began)"
    )
    for extra in ({}, {"PMI_RANK": "0"}):
        took = [float(python(code, installed, tmp_path, **extra).stdout) for _ in range(5)]
        assert min(took) < 0.010, took
