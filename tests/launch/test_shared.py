"""Under a JupyterLab server, notebooks share one lab, and the last to call start has it."""

import json
import os
import secrets
import subprocess
import sys

import psutil
import pytest

from labkit import launch
from labkit.launch import keeper, living, processes, shared
from labkit.launch.engines import Engines
from labkit.launch.shared import SERVER
from tests.waiting import WITHIN, until

pytestmark = pytest.mark.ranks

KERNEL = """
import sys, time, labkit
from labkit.lab import cell, remote
from labkit import LabError

remote.RETURN_DEADLINE = 30.0  # the ranks that are asked about are not replaced where they are late

def run(code):
    lab.require_running()
    return [s.words() for s in cell.follow(lab, lab[:].execute(code, silent=False, block=False)).said]

for line in sys.stdin:
    try:
        if line.strip() in ("start", "take"):
            begin = time.monotonic()
            lab = labkit.start(2, take=line.strip() == "take")
            print("ready", [r.pid for r in lab.ranks], "in", round(time.monotonic() - begin, 2), flush=True)
        elif line.strip() == "look seldom":
            cell.LOOK_AFTER = 60.0
            print("yes", flush=True)
        elif line.strip() == "restart":
            print("ready", [r.pid for r in lab.restart().ranks], flush=True)
        else:
            print(run(line), flush=True)
    except LabError as error:
        print(str(error).replace("\\n", " "), flush=True)
"""


class Kernel:
    """A process that does what a notebook's kernel does with labkit."""

    def __init__(self, server, name):
        env = os.environ | {SERVER: living.identity(server), "JPY_SESSION_NAME": f"/somewhere/{name}"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", KERNEL], env=env, **pipes)

    def ask(self, line):
        self.tell(line)
        return self.answer()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.wait(WITHIN)
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


def test_whose_cell_is_ended_by_another_notebook_is_told_so_at_once(server, monkeypatch, tmp_path):
    """Also if its ranks were interrupted, and it saw their ends, since it last looked who has them."""
    monkeypatch.setenv(SERVER, living.identity(server))
    first, second = Kernel(server, "a.ipynb"), Kernel(server, "b.ipynb")
    first.ask("start")
    assert first.ask("look seldom") == "yes"
    begun = tmp_path / "begun"
    first.tell(f"import time; open({str(begun)!r}, 'a').close(); time.sleep(100)")
    assert until(begun.exists)
    second.ask("take")
    assert "b.ipynb has had them since" in first.answer()
    first.end(), second.end()


def test_a_lab_goes_from_notebook_to_notebook_and_ends_with_the_server(server, monkeypatch, tmp_path):
    monkeypatch.setenv(SERVER, living.identity(server))
    assert shared.status()["state"] == "none"
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
    in_a_cell = tmp_path / "in a cell"
    first.tell(f"import time; open({str(in_a_cell)!r}, 'a').close(); time.sleep(100)")
    assert until(in_a_cell.exists)
    told = []
    assert until(lambda: told.append(shared.status()) or told[-1]["state"] == "busy")
    assert (told[-1]["ranks"], told[-1]["owner"]) == (2, "a.ipynb")
    answers = []
    until(lambda: answers.append(second.ask("start")) or "do not answer" not in answers[-1])
    refused = answers[-1]
    assert "a.ipynb has had them since" in refused and "runs a cell on them: line 1" in refused
    assert "labkit.start(2, take=True)" in refused
    assert pids(second.ask("take")) == pids(begun), "though they were busy"
    assert "b.ipynb has had them since" in first.answer()
    first.end(), second.end()
    ranks = [psutil.Process(int(pid)) for pid in pids(begun).strip("[]").split(",")]
    assert all(map(living.is_alive, ranks)), "the lab outlives its notebooks"
    assert until(lambda: shared.status()["state"] == "ready")
    server.kill()
    assert until(lambda: not any(map(living.is_alive, ranks)))


@pytest.mark.slow
def test_notebooks_that_start_at_once_share_one_lab_and_are_told_who_replaced_it(server):
    kernels = [Kernel(server, f"{name}.ipynb") for name in "abc"]
    for kernel in kernels:
        kernel.tell("start")
    answers = [kernel.answer() for kernel in kernels]
    assert len(set(map(pids, answers))) == 1, answers
    last = kernels[0].ask("start")
    restarted = kernels[0].ask("restart")
    assert pids(restarted) != pids(last)
    refused = kernels[1].ask("rank")
    assert "a.ipynb" in refused and "mpiexec" not in refused
    assert pids(kernels[1].ask("start")) == pids(restarted)
    for kernel in kernels:
        kernel.end()


def test_an_idle_lab_is_known_by_its_last_cell(tmp_path):
    holder = tmp_path / keeper.HOLDER
    assert keeper.idle_for(holder) == 0.0, "a lab that is not shared is never idle"
    holder.write_text("")
    os.utime(holder, (0, 0))
    assert keeper.idle_for(holder) > keeper.IDLE


@pytest.mark.parametrize("torn", ["", '{"pid": ', "[]", None], ids=repr)
def test_where_nobody_can_say_who_has_a_lab_the_next_cell_takes_it(tmp_path, monkeypatch, torn):
    monkeypatch.setenv(SERVER, living.identity(psutil.Process()))
    holder = tmp_path / keeper.HOLDER
    if torn is not None:
        holder.write_text(torn)
    shared.require_mine(tmp_path)
    assert json.loads(holder.read_text())["pid"] == os.getpid()
    assert [path.name for path in tmp_path.iterdir()] == [keeper.HOLDER], "and no scratch file is left"


def planted(folder, plan):
    """A card as a lab of this server has it."""
    (folder / "planted").mkdir(parents=True)
    card = folder / "planted" / shared._CARD
    card.write_text(json.dumps({"server": os.environ[SERVER], "plan": repr(plan)}))
    return card


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant what is another user's")
def test_a_lab_that_another_user_has_planted_is_not_touched(tmp_path, monkeypatch):
    monkeypatch.setenv(SERVER, living.identity(psutil.Process()))
    monkeypatch.setattr(shared, "RUNTIME", tmp_path)
    wanted = launch.plan(2)
    card = planted(tmp_path, wanted)
    os.chown(card.parent, 65534, 65534)
    attached = []
    monkeypatch.setattr(Engines, "attach", lambda plan, folder: attached.append(folder))
    assert shared.find(wanted) is None
    assert attached == [] and card.exists()


def test_labkit_stop_reaps_what_a_crash_left():
    lab_id = secrets.token_hex(4)
    mark = os.environ | {processes.MARK: lab_id}
    left = psutil.Popen(["sleep", "300"], env=mark, start_new_session=True)
    bystander = psutil.Popen(["sleep", "300"])
    try:
        # A moment after its start a program has no environment yet.
        assert until(lambda: [p.pid for p in processes.of_lab(lab_id)] == [left.pid])
        processes.end_lab(lab_id)
        assert not living.is_alive(left) and living.is_alive(bystander)
    finally:
        bystander.kill()
        bystander.wait()
