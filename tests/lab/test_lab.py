"""A lab starts ready, knows its ranks, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from labkit import LabError, launch
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.grade import grade
from labkit.lab.cell import SHARE, follow
from labkit.lab.lab import Lab
from labkit.launch import living, processes
from labkit.launch.engines import Engines
from tests.waiting import WITHIN, lasting, until

pytestmark = pytest.mark.ranks


def test_engine_i_is_rank_i(lab):
    world = list(range(len(lab)))
    assert lab.client.ids == world == [r.rank for r in lab.ranks] == lab[:]["rank"]
    assert lab[:]["world_size"] == [len(lab)] * len(lab)


def test_a_rank_finds_five_names_and_nothing_else(labs, ask):
    found = set(ask(labs(1)[0], "[n for n in globals() if n[0] != '_']"))
    of_the_shell = {"In", "Out", "get_ipython", "exit", "quit", "open"}
    assert found - of_the_shell == {"rank", "world_size", "device", "torch", "dist"}


def test_the_group_is_ready(lab, ask):
    n = len(lab)
    total = ask(lab[:], "x.item()", "x = torch.tensor([rank + 1.0]); dist.all_reduce(x)")
    assert total == [n * (n + 1) / 2] * n


def test_one_thread_and_a_seed_of_its_own(labs, ask):
    assert ask(labs(3)[:], "torch.get_num_threads()") == [1, 1, 1]
    first = ask(labs(3)[:], "torch.rand(1).item()")
    assert len(set(first)) == 3
    assert ask(labs(3)[:], "torch.rand(1).item()") == first, "a clean namespace comes with a fresh seed"


def test_clean_forgets(labs, ask):
    labs(2)[:].execute("x = 1\ntorch.set_default_dtype(torch.float64)", block=True)
    assert ask(labs(2)[:], "'x' in globals()") == [False, False]
    assert ask(labs(2)[:], "str(torch.ones(1).dtype)") == ["torch.float32"] * 2


def test_views_address_ranks(labs):
    lab = labs(3)
    assert lab[1]["rank"] == 1 and lab[1:]["rank"] == [1, 2] and lab[[0, 2]]["rank"] == [0, 2]


QUESTIONS = {
    "whether it runs": lambda lab: lab.require_running(),
    "compare": lambda lab: lab.compare("rank"),
    "network": lambda lab: lab.network(),
    "check": lambda lab: grade(lab, exercise_named("swap")),  # of a function that nobody has written
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_only_a_cell_holds_the_spare_ranks(labs, question, tmp_path):
    lab, seen, end = labs(2), [], tmp_path / "end"
    QUESTIONS[question](lab)
    assert not lab.spare.is_on_hold
    sent = lab[:].execute(lasting(end), silent=False, block=False)

    def look(*_):
        seen.append(lab.spare.is_on_hold)
        end.touch()

    follow(lab, sent, deadline=WITHIN, watch_it=look)
    assert seen and all(seen) and not lab.spare.is_on_hold


def test_looks_at_a_cell_take_a_share_of_the_processor_and_no_more(labs):
    """They would take all of it where each is long, as at many hundreds of ranks: here it is made to be."""
    lab, looks = labs(2), []
    sent = lab[:].execute("import time\ntime.sleep(4)", silent=False, block=False)

    def look(*_):
        looks.append(begin := time.process_time())
        while time.process_time() - begin < 0.2:
            continue

    follow(lab, sent, deadline=WITHIN, watch_it=look)
    assert 1 <= len(looks) <= 4 / (0.2 / SHARE) + 2


def test_table(labs):
    lab = labs(2)
    head, *rows = [line.split() for line in repr(lab).splitlines()]
    assert head == ["rank", "host", "pid", "device", "backend", "state"]
    for r, row in zip(lab.ranks, rows, strict=True):
        assert row == [str(r.rank), os.uname().nodename, str(r.pid), "cpu", r.backend, "ready"]
        assert living.started(psutil.Process(r.pid)) == r.started
    assert lab._repr_html_().count("<tr>") == 3


@pytest.mark.parametrize("targets", [2, [0, 7], "abc", 1.5])
def test_ranks_that_are_none_are_told(labs, targets):
    with pytest.raises(LabError, match=r"lab\[.*\](?s:.*)the ranks are 0 to 1"):
        labs(2)[targets]


def test_a_lab_is_iterated_rank_by_rank(labs):
    assert [view.targets for view in labs(2)] == [0, 1]


def test_a_rank_that_cannot_start_shows_its_last_lines(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'labkit.rank.forkserver' in sys.orig_argv:\n"
        "    sys.exit('the flux capacitor is missing')\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(LabError, match="2 ranks.*\n.*(?s:.*)the flux capacitor is missing"):
        Lab(launch.plan(2))
    there = psutil.process_iter(["environ"])
    assert [p for p in there if str(tmp_path) in (p.info["environ"] or {}).get("PYTHONPATH", "")] == []


PLAIN_PROCESS = textwrap.dedent("""
    import sys, labkit
    lab = labkit.start(2)
    print(lab._engines.lab_id, flush=True)
    assert lab[:].apply_sync(lambda: rank) == [0, 1]
    if sys.argv[1] == "wait":
        sys.stdin.read()
""")


@pytest.mark.parametrize(
    "end", [*(pytest.param(e, marks=pytest.mark.slow) for e in ("exit", "SIGTERM")), "SIGKILL"]
)
def test_no_process_outlives_its_owner(end):
    mode = "exit" if end == "exit" else "wait"
    owner = subprocess.Popen(
        [sys.executable, "-c", PLAIN_PROCESS, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    lab_id = owner.stdout.readline().strip()
    assert lab_id
    if end != "exit":
        assert len(processes.of_lab(lab_id)) >= 4
        owner.send_signal(getattr(signal, end))
    owner.wait(WITHIN)
    assert until(lambda: not processes.of_lab(lab_id))
    owner.stdin.close(), owner.stdout.close()


ENDED_WHILE_IT_STOPS = """
import os
from labkit import launch
from labkit.lab.lab import Lab
from labkit.launch.keeping import Keeping

def end(keeping, ended=Keeping.end):
    ended(keeping)
    os.kill(os.getpid(), 9)

lab = Lab(launch.plan(1))
print(lab._engines.lab_id, flush=True)
Keeping.end = end
lab.stop()
"""


def test_nothing_outlives_an_owner_that_is_killed_while_it_stops_its_lab():
    owner = subprocess.run(
        [sys.executable, "-c", ENDED_WHILE_IT_STOPS], stdout=subprocess.PIPE, text=True, timeout=150
    )
    assert owner.returncode == -signal.SIGKILL
    assert until(lambda: not processes.of_lab(owner.stdout.strip()))


def test_an_interrupt_does_not_stop_the_end_of_a_lab_half_way(monkeypatch):
    lab = Lab(launch.plan(1))
    folder, stop = lab._engines.folder, Engines.stop

    def interrupted(engines):
        signal.raise_signal(signal.SIGINT)
        stop(engines)

    monkeypatch.setattr(Engines, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lab.stop()
    assert processes.of_lab(folder.name) == [] and not folder.exists()


INTERRUPTED = """
import os, signal, sys
import psutil
from labkit import launch
from labkit.lab.lab import Lab
from labkit.launch import processes

def of_this_test(process):
    try:
        return process.environ().get("OF_TEST") == os.environ["OF_TEST"]
    except psutil.NoSuchProcess:  # of another test's lab, and ended meanwhile
        return False

def interrupt(event, args):
    if event == "subprocess.Popen" and any("witness" in word for word in map(str, args[1])):
        signal.raise_signal(signal.SIGINT)

sys.addaudithook(interrupt)
try:
    Lab(launch.plan(1))
except KeyboardInterrupt:
    print("interrupted", [p for p in processes.of_any_lab() if of_this_test(p)])
"""


def test_an_interrupt_of_a_start_ends_it_and_nothing_else_is_told():
    told = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=os.environ | {"OF_TEST": str(os.getpid())},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (told.stdout, told.stderr) == ("interrupted []\n", "")


def test_ending_a_lab_spares_everybody_else(labs):
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        lab, others = Lab(launch.plan(1)), labs(1)._engines.lab_id
        other = [p.pid for p in processes.of_lab(others)]
        lab.stop()
        assert bystander.poll() is None
        assert [p.pid for p in processes.of_lab(others)] == other
    finally:
        bystander.kill()
        bystander.wait()


def test_the_connection_files_are_private_and_go_with_the_lab():
    lab = Lab(launch.plan(1))
    folder = lab._engines.folder
    assert folder.stat().st_mode & 0o077 == 0
    for file in folder.glob("security/*.json"):
        assert file.stat().st_mode & 0o077 == 0
    lab.stop()
    assert not folder.exists()
