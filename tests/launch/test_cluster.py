"""A start whose processes end under its eyes says so."""

import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from labkit import LabError
from labkit.launch import MPI, Plan
from labkit.launch.cluster import Start


@pytest.mark.parametrize("ended", ["controller", "mpiexec"])
def test_what_has_just_ended_cannot_be_watched(ended, tmp_path):
    gone = psutil.Popen([sys.executable, "-c", ""], stdout=subprocess.DEVNULL)
    gone.wait()
    controller, mpiexec = (gone if name == ended else psutil.Process() for name in ("controller", "mpiexec"))
    cluster = SimpleNamespace(
        controller=SimpleNamespace(process=controller), engine_set=SimpleNamespace(process=mpiexec)
    )
    start = Start(Plan(2, MPI("mpich", "5.0", "mpiexec")), tmp_path, "")
    with pytest.raises(LabError, match="2 ranks"):
        start._watch(cluster)
