"""A class at a hub: each learner is alone, no lab outlives its server, and nothing is left."""

import json
import threading

import pytest

from labkit.commands.classroom import tally
from labkit.exercises.catalogue import LESSONS
from tests import hub
from tests.waiting import WITHIN, until

NOTEBOOK = "course/00_meet_the_ranks.ipynb"
KEYS = "/tmp/jupyter/labkit/*/security/ipcontroller-client.json"
SEES = """
import glob, json, os, sys, psutil
from pathlib import Path
import labkit
def refuses(act):
    try:
        act()
    except OSError:
        return True
mine = Path.home()
shared = [mine / "x", *map(Path, (sys.prefix, sys.base_prefix, labkit.__file__))]
print(json.dumps({
    "labs": glob.glob("KEYS"),
    "kernels": sum("ipykernel_launcher" in p.cmdline() for p in psutil.process_iter()),
    "homes": os.listdir(mine.parent),
    "refused": {str(place): refuses((Path(place) / "x").touch) for place in
                (sys.prefix, Path(labkit.__file__).parent, "/usr", "/etc", mine.parent.parent / "log")},
    "others": [str(there) for place in map(Path, ("/home", "/root", "/dev/shm")) if place.is_dir()
               for there in place.iterdir() if not {there} & {up for path in shared for up in path.parents}],
    "rights": [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapBnd")],
    "secrets": sorted(name for name in os.environ if "PASSWORD" in name or "CONFIGPROXY" in name),
}))
""".replace("KEYS", KEYS)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with hub.up(tmp_path_factory.mktemp("hub")) as found:
        yield found


@pytest.fixture(scope="module")
def two(running):
    """Two learners, each with the same notebook open and a lab of two ranks."""
    found = {}

    def begin(name: str) -> None:
        learner = running.learner(name)
        said = list(learner.start())
        kernel = learner.open(NOTEBOOK)
        assert said and not kernel.run("import labkit, os\nlab = labkit.start(2)").error
        found[name] = learner, kernel

    at_once = [threading.Thread(target=begin, args=[name]) for name in ("ada", "grace")]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join(240)
    assert set(found) == {"ada", "grace"}, running.said()[-3000:]
    return found


pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class TestTwoLearners:
    def test_each_has_lessons_the_front_page_and_a_lab(self, two):
        for _, kernel in two.values():
            there = kernel.run("print(sorted(os.listdir()))").text
            assert "00_meet_the_ranks.ipynb" in there and "index.md" in there
            assert "[ranks 0-1] 2" in kernel.run("%%px\nprint(world_size)").text

    def test_what_one_sets_on_ranks_the_other_does_not_find(self, two):
        (_, ada), (_, grace) = two["ada"], two["grace"]
        ada.run("%%px\nsecret = rank + 1")
        assert grace.run("%%px\nprint('secret' in globals())").text == "[ranks 0-1] False\n"
        assert "1" in ada.run("%%px --targets 0\nprint(secret)").text

    def test_neither_sees_files_or_processes_of_the_other(self, two):
        for name, (_, kernel) in two.items():
            sees = json.loads(kernel.run(SEES).text)
            assert len(sees["labs"]) == 1 and sees["kernels"] == 1 and sees["homes"] == [name]
            assert all(sees["refused"].values()), sees
            assert sees["others"] == [] and sees["secrets"] == [] and int(sees["rights"][0], 16) == 0

    def test_a_key_of_ones_own_opens_no_lab_of_another(self, two):
        """Ports of this machine are all learners', so what listens there must ask who it is."""
        told = f"import glob\nprint(open(glob.glob('{KEYS}')[0]).read())"
        theirs = json.loads(two["grace"][1].run(told).text)
        attack = f"""
import glob, ipyparallel, json
mine = json.load(open(glob.glob("{KEYS}")[0]))
own = dict(mine)
for name in ("registration", "mux", "task", "control", "notification", "iopub", "broadcast"):
    mine[name] = {theirs!r}.get(name, mine.get(name))
json.dump(mine, open("stolen.json", "w")); json.dump(own, open("own.json", "w"))
def ids(file):
    try:
        return ipyparallel.Client(file, timeout=5).ids
    except Exception as error:
        return type(error).__name__
print(ids("own.json"), ids("stolen.json"))
"""
        said = two["ada"][1].run(attack).text
        assert said.startswith("[0, 1] ") and "[0, 1]" not in said[7:], said

    def test_a_token_of_ones_own_opens_no_server_of_another(self, two, running):
        _, kernel = two["ada"]
        host = running.url.removeprefix("http://")
        ask = f"""
import urllib.request, urllib.error
def status(name):
    asked = urllib.request.Request("{running.url}/user/" + name + "/api/contents", headers={{
        "Host": name + ".{host}", "Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"]}})
    try:
        return urllib.request.urlopen(asked, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code
print(status("ada"), status("grace"))
"""
        assert kernel.run(ask).text.split() == ["200", "403"]

    def test_what_a_learner_shares_is_where_the_teacher_looks(self, two, running):
        exercise = LESSONS[0].exercises[0]
        kernel = two["ada"][1]
        kernel.run("import subprocess, sys\nshare = [sys.executable, '-m', 'labkit.commands', 'share']")
        kernel.run(f"%%px\n{exercise.solution}")
        check = f'labkit.check("{exercise.name}")'
        assert "to be tried in worlds of" in kernel.run(check).text, "a lab of two is too small"
        assert tally.shared_in(running.folder / "class") == []
        assert "Your teacher sees" in kernel.run("print(subprocess.check_output(share, text=True))").text
        kernel.run(check)
        assert tally.shared_in(running.folder / "class") == [{exercise.name: "not tried in every world"}]
        kernel.run("subprocess.run([*share, '--stop'])")
        assert tally.shared_in(running.folder / "class") == []

    def test_too_much_memory_costs_its_owner_alone(self, two):
        (ada, greedy), (_, other) = two["ada"], two["grace"]
        hungry = ada.open("course/01_send_a_tensor.ipynb")
        took = hungry.run(
            "import os, subprocess, sys, time\n"
            "eats = 'x = []\\nwhile True: x.append(bytearray(b\"1\" * 2**26))'\n"
            "print(subprocess.run([sys.executable, '-c', eats], timeout=100).returncode)"
        )
        assert "-9" in took.text, took
        assert "1" in greedy.run("print(1)").text and "1" in other.run("%%px\nprint(1)").text

    def test_a_lab_ends_with_its_server_and_another_goes_on(self, two, running):
        theirs = running.of("grace")
        assert len(theirs) > 8, "bubblewrap, the server, a kernel, a lab"
        two["grace"][0].stop()
        assert until(lambda: not any(map(hub.lives, theirs)))
        assert "[rank 1] 1" in two["ada"][1].run("%%px\nprint(rank)").text

    def test_at_the_end_nothing_is_left(self, two, running):
        running.of("ada")
        running.end()
        assert until(lambda: not running.left()), running.left()
        assert list(running.temporary.iterdir()) == []
        assert {path.name for path in running.folder.iterdir()} <= {"homes", "class", "log"}
        assert running.groups() == []
        assert not list((running.folder / "homes").glob("*/.local/share/jupyter/runtime/*"))


def test_a_full_server_says_so_and_lets_who_waits_in_later(tmp_path):
    with hub.up(tmp_path, "--Machine.places=1") as full:
        first, second = full.learner("ada"), full.learner("grace")
        list(first.start())
        said: list[str] = []

        def listen() -> None:
            for told in second.start():
                said.append(told)

        waiting = threading.Thread(target=listen)
        waiting.start()
        assert until(lambda: any("queue" in told for told in said)), said
        assert "all 1 places are taken. You are number 1 in the queue" in " ".join(said)
        assert full.of("grace") == set()
        first.stop()
        waiting.join(WITHIN * 2)
        assert "Server ready" in said[-1] and full.of("grace")


def test_a_hub_that_is_killed_takes_all_with_it(tmp_path):
    with hub.up(tmp_path) as running:
        ada = running.learner("ada")
        list(ada.start())
        assert not ada.open(NOTEBOOK).run("import labkit\nlabkit.start(2)").error
        assert len(running.of("ada")) > 8
        running.kill()
        assert until(lambda: not running.left()), running.left()


@pytest.mark.nightly
def test_an_idle_server_is_ended_with_its_lab(tmp_path):
    with hub.up(tmp_path, LABKIT_HUB_IDLE="60") as running:
        ada = running.learner("ada")
        list(ada.start())
        ada.open(NOTEBOOK).run("import labkit\nlabkit.start(2)")
        theirs = running.of("ada")
        assert until(lambda: not any(map(hub.lives, theirs)), 4 * WITHIN)


def test_learners_of_a_class_have_accounts(tmp_path):
    """As root: each learner is an account, with no more rights than that, and the kernel keeps the limits."""
    with hub.up(tmp_path, accounts=("ada", "grace")) as of_class:
        kernels = {}
        for name in ("ada", "grace"):
            learner = of_class.learner(name)
            list(learner.start())
            kernels[name] = learner.open(NOTEBOOK)
            begun = kernels[name].run("import labkit\nlab = labkit.start(2)")
            assert not begun.error, begun.text
        for name, kernel in kernels.items():
            assert (
                kernel.run("import getpass, os\nprint(getpass.getuser(), os.getuid() > 0)").text
                == f"{name} True\n"
            )
            assert (
                kernel.run("%%px\nimport os\nprint(os.getcwd())").text == f"[ranks 0-1] /home/{name}/course\n"
            )
            sees = json.loads(kernel.run(SEES).text)
            assert len(sees["labs"]) == 1 and sees["kernels"] == 1 and sees["homes"] == [name]
            assert all(sees["refused"].values()) and int(sees["rights"][0], 16) == 0, sees
        if groups := of_class.groups():
            limits = [file.read_text() for group in groups for file in group.glob("memory.limit_in_bytes")]
            assert set(map(int, limits)) == {3 * 2**30}
        of_class.of("ada"), of_class.of("grace")
        of_class.end()
        assert until(lambda: not of_class.left()), of_class.left()
        assert of_class.groups() == []
