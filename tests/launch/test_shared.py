"""Under a JupyterLab server, notebooks share one lab, and the last to call start has it."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from labkit.launch import keeper, processes
from labkit.launch.shared import SERVER

pytestmark = pytest.mark.ranks

KERNEL = """
import sys, time, labkit
from labkit.lab import cell
from labkit import LabError

def run(code):
    lab.require_running()
    return [s.words() for s in cell.follow(lab, lab[:].execute(code, silent=False, block=False)).said]

for line in sys.stdin:
    try:
        if line.strip() == "start":
            begin = time.monotonic()
            lab = labkit.start(2)
            print("ready", [r.pid for r in lab.ranks], "in", round(time.monotonic() - begin, 2), flush=True)
        else:
            print(run(line), flush=True)
    except LabError as error:
        print(str(error).replace("\\n", " "), flush=True)
"""


class Kernel:
    """A process that does what a notebook's kernel does with labkit."""

    def __init__(self, server, name):
        env = os.environ | {SERVER: processes.identity(server), "JPY_SESSION_NAME": f"/somewhere/{name}"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", KERNEL], env=env, **pipes)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def server():
    """A process that stands for a JupyterLab server: all that matters of one is that it lives."""
    process = psutil.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def pids(answer):
    return answer[answer.index("[") : answer.index("]") + 1]


def test_a_lab_goes_from_notebook_to_notebook_and_ends_with_the_server(server):
    first, second = Kernel(server, "a.ipynb"), Kernel(server, "b.ipynb")
    begun = first.ask("start")
    assert first.ask("x = rank; x") == "['0', '1']"
    taken = second.ask("start")
    assert pids(taken) == pids(begun), "the same ranks"
    assert second.ask("'x' in globals()") == "['False', 'False']", "with clean namespaces"
    refused = first.ask("rank")
    assert "b.ipynb has had them since" in refused and "labkit.start() takes them back" in refused
    assert pids(first.ask("start")) == pids(begun)
    assert first.ask("rank") == "['0', '1']"
    first.end(), second.end()
    ranks = [psutil.Process(int(pid)) for pid in pids(begun).strip("[]").split(",")]
    assert all(map(processes.is_alive, ranks)), "the lab outlives its notebooks"
    server.kill()
    deadline = time.monotonic() + 5
    while any(map(processes.is_alive, ranks)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_idle_lab_is_known_by_its_last_cell(tmp_path):
    holder = tmp_path / keeper.HOLDER
    assert keeper.idle_for(holder) == 0.0, "a lab that is not shared is never idle"
    holder.write_text("")
    os.utime(holder, (0, 0))
    assert keeper.idle_for(holder) > keeper.IDLE


def test_labkit_stop_reaps_what_a_crash_left():
    mark = os.environ | {processes.MARK: "cafe0123"}
    left = psutil.Popen(["sleep", "300"], env=mark, start_new_session=True)
    bystander = psutil.Popen(["sleep", "300"])
    try:
        assert [p.pid for p in processes.of_lab("cafe0123")] == [left.pid]
        processes.end_lab("cafe0123")
        assert not processes.is_alive(left) and processes.is_alive(bystander)
    finally:
        bystander.kill()
        bystander.wait()
