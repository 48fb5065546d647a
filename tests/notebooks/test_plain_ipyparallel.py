"""Cells written for plain ipyparallel run under labkit, and back."""

import os
import sys

import nbformat
import pytest
from nbclient import NotebookClient

STARTS = {
    "ipyparallel": "import ipyparallel as ipp\n"
    "cluster = ipp.Cluster(engines='mpi', n=2)\n"
    "rc = cluster.start_and_connect_sync()\n"
    "view = rc[:]\nview.block = True\nview.activate()",
    "labkit": "import labkit\nlab = labkit.start(2)\nrc = lab.client\nview = rc[:]\nview.block = True",
}
ENDS = {"ipyparallel": "cluster.stop_cluster_sync()", "labkit": "lab.stop()"}
CELLS = (
    "%%px\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nr, n = comm.Get_rank(), comm.Get_size()",
    "%%px\ntotal = comm.allreduce(r + 1)\nprint(f'rank {r} of {n}: {total}')",
    "assert view['total'] == [3, 3]",
    "%px doubled = 2 * total",
    "assert view['doubled'] == [6, 6]",
    "%%px --targets 1\nalone = True",
    "assert rc[1]['alone'] is True",
    "%%px --noblock -o later\nmessage = comm.bcast('from 0' if r == 0 else None)",
    "later.wait(10)\nassert view['message'] == ['from 0', 'from 0']",
    "%%px --noblock\nr * 10",
    "%pxresult",
    "%%px --no-stream --group-outputs=engine --progress-after 5\nr",
    "%pxconfig --noblock\n%pxconfig --block",
    "%autopx",
    "automatic = comm.gather(r)",
    "%autopx",
    "assert view['automatic'] == [[0, 1], None]",
    "%%px --local\nboth = 1",
    "assert both == 1 and view['both'] == [1, 1]",
    "def hello():\n    from mpi4py import MPI\n    return f'hello from {MPI.COMM_WORLD.Get_rank()}'",
    "assert view.apply_sync(hello) == ['hello from 0', 'hello from 1']",
    "view.scatter('part', [0, 1, 2, 3])\nassert view.gather('part', block=True) == [0, 1, 2, 3]",
    "view.push({'pushed': 5})\nassert view.pull('pushed') == [5, 5]",
)


@pytest.mark.slow  # plain ipyparallel takes its time
@pytest.mark.parametrize("start", STARTS)
def test_the_same_cells_run_under_both(start, monkeypatch):
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}")
    sources = (STARTS[start], *CELLS, ENDS[start])  # plain ipyparallel's processes outlive their kernel
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    text = str([cell.get("outputs") for cell in notebook.cells])
    assert "rank 0 of 2: 3" in text and "rank 1 of 2: 3" in text
