"""What is said to a prediction, an answer, and a request for help; and what is kept of it."""

import json
import os
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import labkit
from labkit import LabError
from labkit.exercises.catalogue import LESSONS, exercise_named


def kept(folder) -> dict:
    return json.loads((folder / "progress.json").read_text())


def test_a_prediction_outlives_its_kernel(capsys, progress_folder):
    in_another_process = "import labkit; labkit.predict('turns', 3)"
    done = subprocess.run(
        [sys.executable, "-c", in_another_process], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "noted: 3 T. The lesson will find it.\n"
    labkit.predict("turns", measured=2.0)
    assert capsys.readouterr().out == "you said 3 T, measured 2 T: off by +50%\n"
    assert (progress_folder / "progress.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_tested_notebook_does_not_see_what_somebody_has_done(progress_folder, tmp_path):
    labkit.predict("turns", 3)
    cells = [new_code_cell("import labkit\nlabkit.predict('turns', measured=2.0)")]
    cells[0].outputs = [new_output("stream", name="stdout", text="you said no number; measured 2 T\n")]
    cells.append(new_code_cell("labkit.predict('turns', 4)\nlabkit.predict('turns', measured=2.0)"))
    said = "noted: 4 T. The lesson will find it.\nyou said 4 T, measured 2 T: off by +100%\n"
    cells[1].outputs = [new_output("stream", name="stdout", text=said)]
    for number, cell in enumerate(cells, 1):
        cell.execution_count = number
    nbformat.write(new_notebook(cells=cells), tmp_path / "mine.ipynb")
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "mine.ipynb"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    done = subprocess.run(
        pytest_command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout
    assert kept(progress_folder)["predictions"] == {"turns": 3.0}


def test_asking_for_a_number_does_not_wait_for_torch():
    code = "import sys, labkit; labkit.predict('turns'); labkit.ask('00.1'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("False\n")


def test_run_all_without_a_number_says_what_to_do_and_keeps_nothing(capsys, progress_folder):
    labkit.predict("turns", None)
    labkit.predict("turns", measured=2.7)
    assert capsys.readouterr().out.splitlines() == [
        "no number yet: put yours in place of None and run the cell again",
        "you said no number; measured 2.7 T",
    ]
    assert not progress_folder.exists()


def type_name(value) -> str:
    return type(value).__name__


NONSENSE = ["three", True, float("nan"), [1], {"a": 1}, 1j, 10**400, b"3", object(), int, "x" * 10_000]


@pytest.mark.parametrize("value", NONSENSE, ids=type_name)
def test_what_is_no_number_is_refused_in_a_sentence(value):
    with pytest.raises(LabError, match="that is no number") as refused:
        labkit.predict("turns", value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", [None, 3, ["swap"], {"swap"}, {}, object(), "", "x" * 10_000], ids=type_name)
@pytest.mark.parametrize("call", [labkit.predict, labkit.ask, labkit.hint, labkit.solution, labkit.show])
def test_what_is_no_name_is_told_what_one_looks_like(call, name):
    with pytest.raises(LabError, match="there is none\nfix:   as its cell writes it, such as "):
        call(name)


@pytest.mark.parametrize("answer", [["a"], {}, 3, True, "", "ab", object()], ids=type_name)
def test_what_is_no_letter_is_told_which_there_are(answer):
    with pytest.raises(LabError, match="one of a, b, c"):
        labkit.ask("00.1", answer)


def test_a_share_is_off_by_points_not_by_per_cent(capsys):
    labkit.predict("idle_percent", 27)
    labkit.predict("idle_percent", measured=29)
    assert "you said 27 %, measured 29 %: 2 points too low" in capsys.readouterr().out


def test_what_was_not_checked_cannot_be_shown():
    with pytest.raises(LabError, match='labkit.check."swap". first'):
        labkit.show("swap")


@pytest.mark.parametrize("call", [labkit.predict, labkit.ask, labkit.hint, labkit.solution, labkit.check])
def test_an_unknown_name_is_told_what_one_looks_like(call, monkeypatch):
    monkeypatch.setattr("labkit.lab.session.running", lambda asked: None)
    with pytest.raises(LabError, match="there is none\nfix:   as its cell writes it, such as "):
        call("no such thing")


@pytest.mark.parametrize(
    ("call", "near", "meant"),
    [(labkit.hint, "swp", "swap"), (labkit.predict, "turn", "turns"), (labkit.ask, "02,1", "02.1")],
    ids=("exercise", "prediction", "question"),
)
def test_a_name_that_is_nearly_right_is_asked_about(call, near, meant):
    with pytest.raises(LabError, match=rf"did you mean .*\b{meant}\b"):
        call(near)


def test_a_check_needs_a_lab(monkeypatch):
    monkeypatch.setattr("labkit.lab.session._lab", None)
    with pytest.raises(LabError, match="no lab was started"):
        labkit.check("swap")


def test_hints_come_one_after_the_other(capsys):
    hints = exercise_named("swap").hints
    for seen in (1, 2, 2):
        labkit.hint("swap")
        out = capsys.readouterr().out
        assert out.count("hint ") == seen and (f"hint {seen} of {len(hints)}" in out)
    assert 'labkit.solution("swap") shows an answer' in out


def test_the_solution_is_shown_from_its_one_source(capsys):
    labkit.solution("swap")
    assert capsys.readouterr().out.startswith(exercise_named("swap").solution)


def test_a_question_is_asked_and_every_answer_has_its_reason(capsys, progress_folder):
    for lesson in LESSONS:
        for name, question in lesson.named_questions.items():
            labkit.ask(name)
            asked = capsys.readouterr().out
            assert asked.startswith(f"{name}  ") and all(f"({x}) " in asked for x in question.lettered)
            for letter in question.lettered:
                labkit.ask(name, letter.upper())
                said = capsys.readouterr().out
                line = " ".join(said.split())
                assert (": right. " in line) == (letter == question.right) == (": no. " not in line)
                others = [f"({x}) " in said for x in question.lettered if x != letter]
                assert all(others) == (letter != question.right), "after a wrong letter the choices stay"
                assert max(map(len, said.splitlines())) <= 80
    with pytest.raises(LabError, match="one of a, b, c"):
        labkit.ask("00.1", "z")


def test_a_right_answer_is_kept_whatever_is_asked_later(progress_folder):
    question = LESSONS[0].named_questions["00.1"]
    wrong = next(letter for letter in question.lettered if letter != question.right)
    for letter in (wrong, question.right):
        labkit.ask("00.1", letter)
        assert kept(progress_folder)["questions"]["00.1"] == letter
    for letter in question.lettered:
        labkit.ask("00.1", letter)
        assert kept(progress_folder)["questions"]["00.1"] == question.right


def test_a_computed_number_is_not_called_measured(capsys):
    labkit.predict("turns", 3)
    labkit.predict("turns", computed=2.0)
    assert capsys.readouterr().out.endswith("you said 3 T, computed 2 T: off by +50%\n")


def test_progress_is_a_table_of_what_was_done(capsys):
    labkit.predict("turns", 2)
    labkit.ask("00.1", "b")
    labkit.ask("00.2", "a")
    capsys.readouterr()
    labkit.progress()
    rows = capsys.readouterr().out.splitlines()
    assert rows[1].split("  ")[0] == "00" and "0 of 2" in rows[1]
    assert rows[1].rstrip().endswith("1 of 3") and "1 of 1" in rows[1]
    assert rows[-1] == "next: lesson 00, Meet the ranks", "which is begun"


def test_a_broken_file_says_which_and_what_to_do(progress_folder):
    progress_folder.mkdir()
    (progress_folder / "progress.json").write_text("{")
    with pytest.raises(LabError, match="progress.json cannot be read"):
        labkit.progress()


@pytest.mark.slow
def test_two_kernels_lose_nothing(progress_folder):
    code = "import labkit\nfor i in range(20): labkit.predict({!r}, i)"
    names = ("turns", "million", "messages")
    writers = [
        subprocess.Popen([sys.executable, "-c", code.format(n)], stdout=subprocess.DEVNULL) for n in names
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert kept(progress_folder)["predictions"] == dict.fromkeys(names, 19.0)
