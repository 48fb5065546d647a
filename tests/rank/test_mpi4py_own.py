"""mpi4py's own tests of messages and collectives, run inside the cells of a lab."""

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from labkit.lab.cell import follow

FILES = (
    "test_p2p_buf", "test_p2p_obj", "test_p2p_buf_matched", "test_p2p_obj_matched", "test_p2p_buf_part",
    "test_cco_buf", "test_cco_obj", "test_cco_vec", "test_cco_nb_buf", "test_cco_nb_vec", "test_cco_pr_buf",
    "test_cco_pr_vec", "test_cco_ngh_buf", "test_cco_ngh_obj", "test_comm", "test_comm_topo",
    "test_msgspec", "test_msgzero", "test_request",
)  # fmt: skip

REASONS = {
    "testCommLock": "looks into mpi4py's own locks, which calls of labkit's do not need",
    "testPickle": "pickles a plain copy of COMM_WORLD, which is not what the module has under that name",
    "testCartcomm": "compares a class with mpi4py's own; it is a subclass",
    "testGraphcomm": "the same",
}
"""Why a test may fail."""

CODE = """
import io, os, sys, unittest, warnings
sys.path.insert(0, {folder!r})
os.chdir({folder!r})
warnings.simplefilter("ignore")
suite = unittest.defaultTestLoader.loadTestsFromName({name!r})
result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
counted = result.testsRun, len(result.skipped)
failed = [(test.id(), why) for test, why in result.failures + result.errors]
"""


@pytest.fixture(scope="module")
def tests_of_mpi4py(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mpi4py")
    wanted = f"mpi4py=={version('mpi4py')}"
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mpi4py"]
    done = subprocess.run([*fetch, "--dest", folder, wanted], capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"{wanted} cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as package:
        package.extractall(folder, filter="data")
    return next(folder.glob("mpi4py-*/test"))


@pytest.mark.nightly
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", FILES)
def test_they_pass(labs, tests_of_mpi4py, name, ranks):
    lab = labs(ranks)
    code = CODE.format(folder=str(tests_of_mpi4py), name=name)
    follow(lab, lab[:].execute(code, silent=False, block=False)).raise_for_failure()
    ran, skipped = zip(*lab[:]["counted"], strict=True)
    assert min(ran) > max(skipped) or name == "test_p2p_buf_part"
    failed = {test: why for of_rank in lab[:]["failed"] for test, why in of_rank}
    print(f"{name} at {ranks} ranks: {ran[0]} run, {skipped[0]} skipped, {len(failed)} failed")
    assert not {test: why for test, why in failed.items() if test.rpartition(".")[2] not in REASONS}
