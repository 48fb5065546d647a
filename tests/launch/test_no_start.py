"""A start that failed is told in a sentence that a newcomer can act on."""

import psutil
import pytest

from labkit import LabError, launch
from labkit.launch import no_start
from labkit.launch.engines import Engines
from labkit.launch.living import identity

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
        ("something else", ""),
    ],
)
def test_known_stories(tmp_path, said, found):
    (tmp_path / "torch.py").touch()
    told, fix = no_start.why(f"Traceback ...\n{said}\nlabkit: the fork server has ended", tmp_path)
    assert told == found.format(tmp_path) and fix


@pytest.mark.ranks
def test_a_file_that_hides_torch_is_named(tmp_path, monkeypatch):
    (tmp_path / "torch.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError) as caught:
        Engines.start(launch.plan(2), identity(psutil.Process()))
    assert caught.value.found == f"torch.py in {tmp_path} hides the module torch"
    assert caught.value.fix == "rename torch.py, then start again"
