"""The kernel tells which process ended first, however fast the others follow."""

import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from labkit.launch.cause_of_death import FirstDeath

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd is Linux's")


@pytest.fixture
def sleepers():
    started = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(3)]
    yield started
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("victim", range(3))
def test_the_first_is_named_though_others_follow(sleepers, victim):
    watch = FirstDeath([psutil.Process(p.pid) for p in sleepers])
    assert watch.pid is None
    sleepers[victim].kill()
    sleepers[victim].wait()
    watch.join(5)
    for process in sleepers:
        process.kill()
    assert watch.pid == sleepers[victim].pid


LATE = """
import sys, psutil
from labkit.launch.cause_of_death import FirstDeath
watch = FirstDeath([psutil.Process(int(pid)) for pid in sys.argv[1:]])
print("watching", flush=True)
watch.join(10)
print(watch.pid, flush=True)
"""


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0), (0, 1, 2)])
def test_the_first_is_named_though_all_are_gone_when_the_watch_wakes_up(sleepers, order):
    pids = [str(p.pid) for p in sleepers]
    watch = subprocess.Popen([sys.executable, "-c", LATE, *pids], stdout=subprocess.PIPE, text=True)
    assert watch.stdout.readline() == "watching\n"
    watch.send_signal(signal.SIGSTOP)
    for place in order:
        sleepers[place].kill()
        sleepers[place].wait()
    watch.send_signal(signal.SIGCONT)
    assert watch.communicate(timeout=10)[0].split() == [pids[order[0]]]


def test_one_that_is_gone_already_is_no_news(sleepers):
    processes = [psutil.Process(p.pid) for p in sleepers]
    sleepers[0].kill()
    sleepers[0].wait()
    watch = FirstDeath(processes)
    assert not watch.is_alive() and watch.pid is None


def test_nobody_to_watch():
    watch = FirstDeath([])
    assert not watch.is_alive() and watch.pid is None


def test_it_waits_without_the_processor(sleepers):
    before = time.process_time()
    watch = FirstDeath([psutil.Process(p.pid) for p in sleepers])
    time.sleep(0.3)
    assert watch.is_alive() and time.process_time() - before < 0.1


@pytest.mark.ranks
@pytest.mark.timeout(90)
def test_in_a_notebook_too_the_rank_is_named():
    """There ipyparallel learns of the end of mpiexec at once, and removes its report."""
    killed = "%%px\nimport os\nif rank:\n    os.kill(os.getpid(), 9)\ndist.barrier()"
    cells = ["import labkit\nlabkit.start(2)", killed]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    with pytest.raises(CellExecutionError, match=r"rank 1 \(pid \d+ on .+\) died: .*[Kk]illed"):
        NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
