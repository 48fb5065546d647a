"""The rank that ended first is told first, whatever happens to the others."""

import subprocess
import sys

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from labkit.launch import endings, find_mpi

RANK = """
import os, sys, types

def main():
    from mpi4py import MPI
    from labkit.rank.world import remove_mpi_files
    MPI.COMM_WORLD.barrier()
    remove_mpi_files()
    if MPI.COMM_WORLD.rank == int(sys.argv[1]):
        os.write(1, f"it is {os.getpid()}\\n".encode())
        exec(sys.argv[2])
    MPI.COMM_WORLD.barrier()

engine = sys.modules["labkit.rank.engine"] = types.ModuleType("labkit.rank.engine")
engine.main = main
from labkit.rank import __main__ as witness
witness.main()
"""
ENDS = {
    "os.kill(os.getpid(), 9)": "Killed (signal 9)",
    "os.abort()": "Aborted (signal 6)",
    "os._exit(0)": "exit code 0",
}


def ends():
    """One among 3 ranks in `make test`, each among 8 in `make test-all`, and among 32 by night."""
    for end in ENDS:
        if end in list(ENDS)[:1]:
            yield pytest.param(end, 3)
        yield pytest.param(end, 8, marks=pytest.mark.slow)
        yield pytest.param(end, 32, marks=pytest.mark.nightly)


@pytest.mark.ranks
@pytest.mark.parametrize(("end", "n"), list(ends()))
def test_the_rank_that_ends_itself_is_told_first(end, n):
    command = [find_mpi().mpiexec, "-n", str(n), sys.executable, "-c", RANK, str(n - 2), end]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    found = endings.first(done.stdout)
    assert found.how == ENDS[end]
    assert f"it is {found.pid}\n" in done.stdout


def test_who_ends_the_witness_ends_the_rank():
    code = "import os, time\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(170)"
    rank = RANK.replace("    from mpi4py import MPI\n", f"    exec({code!r})\n")
    witness = subprocess.Popen([sys.executable, "-c", rank], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(witness.stdout.readline()))
    witness.kill()
    witness.wait(60)
    child.wait(60)
    witness.stdout.close()


@pytest.mark.ranks
def test_in_a_notebook_too_the_rank_is_named():
    """There ipyparallel learns of the end of mpiexec at once, and removes its report."""
    killed = "%%px\nimport os\nif rank:\n    os.kill(os.getpid(), 9)\ndist.barrier()"
    cells = ["import labkit\nlabkit.start(2)", killed]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    with pytest.raises(CellExecutionError, match=r"rank 1 \(pid \d+ on .+\) died: .*[Kk]illed"):
        NotebookClient(notebook, timeout=150, kernel_name="python3").execute()
