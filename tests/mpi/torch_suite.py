"""torch's own tests of its backends, as cases: our subclass runs them on ranks that mpiexec started.

`torch.testing._internal.distributed.distributed_test` spawns a process per rank. Such a process would be an
MPI world of its own, so the methods of its base class run here in the ranks that there already are.

    python -m mpi.torch_suite      prints the names of the tests
"""

import json
import os
import sys
import tempfile
import unittest
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from .launcher import BACKEND

SIZE = 4
# Read when the module is imported: which decorators skip is decided then.
os.environ.update(BACKEND=BACKEND, WORLD_SIZE=str(SIZE))
os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())

if find_spec("expecttest") is None:
    # torch derives its TestCase from this package's, and none of these tests uses what that adds.
    sys.modules["expecttest"] = ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed, common_utils  # noqa: E402

# torch lists what the backend compiled into it can do; this one can do more.
features = common_distributed.DistTestCases
for feature in ("ddp", "subgroup", "gpu"):  # "gpu": object collectives and more that need none
    features.backend_feature[feature].add("mpi")
features.skip_collective["allgather_coalesced"].discard("mpi")

from torch.testing._internal.distributed import distributed_test  # noqa: E402

from .table import CASES, Case  # noqa: E402
from .world import World  # noqa: E402

DEADLINE = 60.0
# Skips of what among torch's own backends only gloo can do on a CPU.
LIFTED = ("Test requires backend mpi to be one of {'gloo'}", "Only gloo backend supports timeouts")
SKIPS = {skip.exit_code: skip.message for skip in common_distributed.TEST_SKIPS.values()}


class MpiTests(common_utils.TestCase, distributed_test.DistributedTest._DistTestBase):
    """The 315 methods; a fresh default group for each."""

    rank = -1
    file_name = ""
    world_size = str(SIZE)

    def call_dist_op(self, *args, expect_event=True, **kwargs):
        """torch's profiler gets its event of a collective from works in C++; ours are in Python.

        Everything but that event is checked: without this, one missing feature would hide the rest.
        """
        super().call_dist_op(*args, expect_event=expect_event and BACKEND != "mpi", **kwargs)

    @property
    def init_method(self) -> str:
        return f"file://{self.file_name}"


def fresh_folder(w: World, name: str) -> None:
    """A folder that all ranks share and no other test has used: torch's file barrier counts files."""
    folder = Path(w.folder) / name
    for part in ("barrier", "test_dir", "init_dir"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    os.environ["TEMP_DIR"] = str(folder)
    distributed_test.Barrier.barrier_id = 0


def run_test(name: str, w: World) -> None:
    """One test of torch's on this rank: raise what it raises, or SkipTest."""
    if dist.is_initialized():  # the test before this one failed
        if BACKEND == "mpi":
            from labkit.mpi import recover

            recover()
        dist.destroy_process_group()
    test = MpiTests(name)
    why = getattr(getattr(test, name), "__unittest_skip_why__", None)
    if why is not None and why not in LIFTED:
        raise unittest.SkipTest(why)
    fresh_folder(w, name)
    test.rank, test.file_name = w.rank, str(Path(os.environ["TEMP_DIR"]) / "init_dir" / "file")
    limit = distributed_test.CUSTOM_PG_TIMEOUT.get(name, distributed_test.default_pg_timeout)
    where = {"init_method": test.init_method, "rank": w.rank, "world_size": w.size}
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=limit), **(where if BACKEND != "mpi" else {}))
    common_utils.set_rng_seed()
    try:
        test._barrier()
        test.setUp()
        getattr(test, name)()
        test.tearDown()
        test._barrier()
    except SystemExit as ended:
        if ended.code in SKIPS:
            raise unittest.SkipTest(SKIPS[ended.code]) from None
        raise
    if dist.is_initialized():
        dist.destroy_process_group()
    torch.set_default_dtype(torch.float32)


def names() -> list[str]:
    return sorted(n for n in dir(MpiTests) if n.startswith("test_") and callable(getattr(MpiTests, n)))


for test_name in names():
    key = f"torch.{test_name}"
    CASES[key] = Case(key, partial(run_test, test_name), (SIZE,), DEADLINE, True, None, False)


if __name__ == "__main__":
    json.dump(names(), sys.stdout)
