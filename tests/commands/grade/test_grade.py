"""Answers that were handed in are judged again: right ones pass, mistakes are named, and an attack costs only
its owner, and only that exercise.
"""

import csv
import json
import sys
from pathlib import Path

import psutil
import pytest

import labkit
from labkit import LabError
from labkit.commands.__main__ import main
from labkit.commands.grade import again, sandbox, walls
from labkit.commands.grade.walls import Limits
from labkit.exercises import mistake
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.submission import ENDING
from tests.conftest import spread
from tests.exercises.test_answers import EXERCISES, IDS

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(3000)]
PATIENT = Limits(seconds=400)  # other tests have the cores, too
A_RIGHT_ONE = exercise_named("my_sum").solution
EXPLAINED = {name: [w for w in asked.wrong if w.explains] for name, asked in EXERCISES.items()}
"""Wrong answers that are called by a sentence of their own."""


@pytest.fixture(scope="module")
def bwrap():
    """What shuts answers in; without it there is nothing to test here."""
    try:
        return sandbox.require()
    except LabError as error:
        pytest.skip(f"no sandbox: {error.found}")


def hand_in(folder: Path, learner: str, **answers: tuple[str, str]) -> Path:
    """A file of theirs in the folder: for each exercise the source, and what its owner was told."""
    told = {
        name: {"source": source, "solved": told.startswith("solved"), "told": told}
        for name, (source, told) in answers.items()
    }
    content = {"format": 1, "learner": learner, "answers": told}
    (folder / f"{learner.lower().replace(' ', '_')}{ENDING}").write_text(json.dumps(content))
    return folder


def graded(folder: Path, *options: str) -> dict[tuple[str, str], dict[str, str]]:
    """The rows of the table, by learner and exercise."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    assert main(["grade", str(folder), "--seconds", "400", *options]) == 0
    after = {process.pid for process in psutil.Process().children(recursive=True)}
    assert after <= before, "something that was graded still runs"
    with open(folder / "grades.csv") as table:
        return {(row["learner"], row["exercise"]): row for row in csv.DictReader(table)}


def judged(bwrap: str, name: str, source: str) -> dict:
    """What a sandbox says of one answer."""
    ended = again.run(bwrap, name, source, PATIENT)
    assert not ended.over
    return json.loads(ended.said)


# What an answer finds when it looks round: it raises, and so is not solved, if that is more than it should.
LOOKS_ROUND = """
def my_sum(numbers):
    import os, socket
    found = [path for path in FILES if os.path.exists(path)]
    for path in ("/x", "/usr/x", "/etc/x", "/dev/x", os.path.join(LABKIT, "x")):
        try:
            found.append(open(path, "w").name)
        except OSError:
            pass
    for address in (("1.1.1.1", 53), ("169.254.169.254", 80)):
        try:
            found.append(socket.create_connection(address, 5).getpeername())
        except OSError:
            pass
    found += [name for _, name in socket.if_nameindex() if name != "lo"]
    found += [name for name in os.environ if "TEACHER" in name]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = open(f"/proc/{pid}/cmdline").read()
            if pid == "1" or "grade/begin" in program:  # what judges it
                open(f"/proc/{pid}/mem", "rb")
                found.append(program)
        except OSError:
            pass
    assert not found, found
    return sum(numbers[rank::world_size])
"""


@pytest.mark.slow
def test_a_class_is_graded(bwrap, tmp_path, monkeypatch):
    monkeypatch.setenv("TEACHER_TOKEN", "secret")
    private = ["/etc/passwd", "/etc/shadow", str(Path.home() / ".bashrc"), str(Path(__file__).resolve())]
    private += [str(tmp_path), str(tmp_path / f"bob{ENDING}")]
    looks = f"FILES = {private}\nLABKIT = {str(Path(labkit.__file__).parent)!r}\n{LOOKS_ROUND}"
    name = next(name for name, wrong in sorted(EXPLAINED.items()) if wrong)
    wrong = EXERCISES[name].answer_of(EXPLAINED[name][0])
    hand_in(tmp_path, "Ada", my_sum=(looks, "solved: my_sum is right on every rank"))
    folder = hand_in(tmp_path, "Bob", **{name: (wrong, "solved: it was not")})
    rows = graded(folder)
    ada, bob = rows["Ada", "my_sum"], rows["Bob", name]
    assert (ada["solved"], ada["agrees"], ada["mistake"]) == ("yes", "yes", ""), ada
    assert ada["look at"] == "import os, import socket, open"
    assert (bob["solved"], bob["agrees"], bob["was told"]) == ("no", "no", "solved"), bob
    assert bob["mistake"] and bob["mistake"] != again.NO_VERDICT
    page = (folder / "grades.html").read_text()
    assert "Ada" in page and bob["exercise"] in page and "told otherwise" in page
    assert (folder / "grades.csv").stat().st_mode & 0o777 == 0o600


FORKS = """
def my_sum(numbers):
    import os
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""
FORGES = """
import os
VERDICT = b'{"solved": true, "mistake": ""}'
for pid in [*filter(str.isdigit, os.listdir("/proc")), "self"]:
    for number in range(20):
        try:
            with open(f"/proc/{pid}/fd/{number}", "wb") as file:
                file.write(VERDICT)
        except OSError:
            pass
os.write(1, VERDICT)
print(VERDICT.decode())
def my_sum(numbers):
    return 0
"""
ATTACKS = {
    "loops for ever": "def my_sum(numbers):\n    while True:\n        pass",
    "loops above the function": "while True:\n    pass",
    "hears no interrupt": "import signal\ndef my_sum(numbers):\n    signal.pthread_sigmask(signal.SIG_BLOCK, "
    "[signal.SIGINT])\n    while True:\n        pass",
    "forks": FORKS,
    "eats memory": "def my_sum(numbers):\n    return torch.ones(10**11).sum()",
    "eats memory in many processes": "def my_sum(numbers):\n    import os, time\n    for _ in range(30):\n"
    "        if os.fork() == 0:\n            kept = b'x' * 10**9\n            time.sleep(600)\n"
    "    time.sleep(600)",
    "fills the disk": "def my_sum(numbers):\n    with open('/tmp/x', 'wb') as file:\n        while True:\n"
    "            file.write(bytes(10**6))",
    "fills shared memory": "def my_sum(numbers):\n    n = 0\n    while True:\n        n += 1\n"
    "        with open(f'/dev/shm/{rank}_{n}', 'wb') as file:\n            file.write(bytes(10**7))",
    "kills its rank": "def my_sum(numbers):\n    import os\n    os.kill(os.getpid(), 9)",
    "kills all that it can": "def my_sum(numbers):\n    import os\n    os.kill(-1, 9)",
    "writes a verdict": FORGES,
}
NAMED = {
    "loops for ever": {"takes too long"},
    "loops above the function": {"takes too long"},
    "forks": {"more than 512 processes"},
    "eats memory": {"RuntimeError"},
    "eats memory in many processes": {"more than 4096 MB of memory"},
    "fills the disk": {"OSError", mistake.DIED},  # a rank has no room for its own files either
    "fills shared memory": {"OSError"},
    "kills its rank": {mistake.DIED},
    "kills all that it can": {again.NO_VERDICT},
}
"""What an attack is called where that is sure; elsewhere it depends on which limit is reached first."""


HONEST = (A_RIGHT_ONE, "solved: my_sum is right on every rank")


@pytest.fixture(scope="module")
def under_attack(bwrap, tmp_path_factory):
    """The rows of a class in which Ada and Zoe are honest, and all between them hand in an attack."""
    folder = tmp_path_factory.mktemp("class")
    for learner in ("Ada", "Zoe"):
        hand_in(folder, learner, my_sum=HONEST)
    right_too = {"mean_loss": (exercise_named("mean_loss").solution, "solved: mean_loss is right")}
    for attack in ATTACKS:
        others = right_too if attack == "forks" else {}
        hand_in(folder, f"M {attack}", my_sum=(ATTACKS[attack], "solved: so they say"), **others)
    files = {file: file.read_text() for file in folder.iterdir()}
    rows = graded(folder)
    assert {file: file.read_text() for file in files} == files
    return rows


@pytest.mark.nightly  # the class takes minutes, and what an attack is called needs a quiet machine
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_costs_its_owner_that_exercise(under_attack, attack):
    row = under_attack[f"M {attack}", "my_sum"]
    assert row["solved"] == "no" and row["mistake"] in NAMED.get(attack, {row["mistake"]}), row


@pytest.mark.nightly
@pytest.mark.parametrize("answer", [("Ada", "my_sum"), ("M forks", "mean_loss"), ("Zoe", "my_sum")], ids=str)
def test_attacks_cost_nobody_else_and_no_other_exercise_anything(under_attack, answer):
    row = under_attack[answer]
    assert (row["solved"], row["agrees"], row["mistake"]) == ("yes", "yes", ""), row


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(spread(sorted(EXERCISES), 3), id="some", marks=pytest.mark.slow),
        pytest.param(sorted(EXERCISES), id="all", marks=pytest.mark.nightly),
    ],
)
def test_the_solutions_of_lessons_pass(bwrap, tmp_path, names):
    hand_in(tmp_path, "Ada", **{name: (EXERCISES[name].solution, "solved") for name in names})
    rows = graded(tmp_path, "--at-once", "2")
    assert len(rows) == len(names)
    assert {name: row["mistake"] for (_, name), row in rows.items() if row["solved"] != "yes"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", spread(sorted(n for n in EXPLAINED if EXPLAINED[n]), 3), ids=IDS.get)
def test_a_planted_mistake_is_named(bwrap, name):
    wrong = EXPLAINED[name][0]
    told = judged(bwrap, name, EXERCISES[name].answer_of(wrong))
    assert not told["solved"] and wrong.says in told["told"], (wrong, told)
    assert told["mistake"] == mistake.name(told["told"]) and told["mistake"]


@pytest.mark.slow
def test_limits_that_no_answer_can_keep_are_no_verdict_on_anybody(bwrap, tmp_path, capsys):
    folder = hand_in(tmp_path, "Ada", my_sum=(A_RIGHT_ONE, "solved: my_sum is right on every rank"))
    assert main(["grade", str(folder), "--memory", "50"]) == 1
    assert "labkit's own answer to my_sum is not right here" in capsys.readouterr().err
    assert not (folder / "grades.csv").exists()


@pytest.mark.slow
def test_without_a_sandbox_only_if_the_teacher_says_so(tmp_path, monkeypatch, capsys):
    folder = hand_in(tmp_path, "Ada", my_sum=(A_RIGHT_ONE, "solved: my_sum is right on every rank"))
    monkeypatch.setenv("PATH", str(folder))
    assert main(["grade", str(folder)]) == 1
    said = capsys.readouterr().err
    assert "bwrap" in said and "--no-sandbox" in said and not (folder / "grades.csv").exists()
    assert graded(folder, "--no-sandbox")["Ada", "my_sum"]["solved"] == "yes"
    assert "each answer runs as you" in capsys.readouterr().err


LISTS = """
import os, socket, sys
socket.socket(fileno=int(sys.argv[-1])).send(repr(os.listdir(sys.argv[1])).encode())
"""


def test_what_was_handed_in_is_hidden_wherever_it_lies(bwrap, tmp_path, monkeypatch):
    folder = hand_in(tmp_path, "Ada", my_sum=(A_RIGHT_ONE, "solved"))
    folder.chmod(0o755)  # or root's answers, who are nobody, would not see it in any case
    seen = [*walls._seen(), str(folder)]
    monkeypatch.setattr(walls, "_seen", lambda: seen)
    looks = [sys.executable, "-c", LISTS, str(folder)]
    assert sandbox.run(bwrap, looks, b"", PATIENT).said == f"['ada{ENDING}']"
    assert sandbox.run(bwrap, looks, b"", PATIENT, [folder]).said == "[]"
    (folder / "results").mkdir()
    assert sandbox.run(bwrap, looks, b"", PATIENT, [folder, folder / "results"]).said == "[]"
