"""The front page says what the lessons say, and a learner's changes are never overwritten."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from labkit.commands import front_page, jupyterlab, lessons
from labkit.exercises import progress_file

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*_*.ipynb"))
COURSE = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")


def test_each_lesson_is_in_the_table_with_its_question():
    found = front_page.lessons(ROOT / "notebooks")
    assert [lesson.file for lesson in found] == [path.name for path in LESSONS]
    assert all(lesson.question and lesson.minutes.isdigit() and lesson.needs for lesson in found)
    table = [line for line in front_page.page(found).splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(found) and len({line.count("|") for line in table}) == 1
    for lesson, line in zip(found, table[2:], strict=True):
        assert f"[{lesson.title}]({lesson.file})" in line and lesson.question in line


def test_each_lesson_is_in_the_readmes_table():
    rows = re.findall(r"^\| \d\d \| .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    begin = [
        f"| {lesson.file[:2]} | [{lesson.title}](notebooks/{lesson.file}) | "
        for lesson in front_page.lessons(ROOT / "notebooks")
    ]
    lacking = [row for row in begin if not any(there.startswith(row) for there in rows)]
    assert lacking == [], "add to the table in README.md, with the question behind it: " + ", ".join(lacking)
    assert [row[:5] for row in rows] == [row[:5] for row in begin], "in README.md, in the order of numbers"


def test_each_lesson_is_on_the_map_of_the_course():
    rows = re.findall(r"^\| (\d\d) \| (\[.*?\]\(.*?\)) \|.*?\| (\d+) \|", COURSE, re.MULTILINE)
    found = front_page.lessons(ROOT / "notebooks")
    assert rows == [(x.file[:2], f"[{x.title}]({x.file})", x.minutes) for x in found], (
        "in notebooks/README.md"
    )


def test_the_map_of_the_course_is_no_lesson_and_stays_as_it_is(tmp_path):
    shutil.copy(LESSONS[0], tmp_path)
    (tmp_path / "README.md").write_text(COURSE)
    lessons.provide(tmp_path)
    assert front_page.write(tmp_path) and (tmp_path / "README.md").read_text() == COURSE
    assert [lesson.file for lesson in front_page.lessons(tmp_path)] == [path.name for path in LESSONS]


def test_progress_is_a_column_where_there_is_any():
    found = front_page.lessons(ROOT / "notebooks")
    assert "| progress |" not in front_page.page(found) and "Continue" not in front_page.page(found)
    told = front_page.page(found, {found[1].number: "3 of 4"}, found[2].number)
    assert "| 3 of 4 |" in told and f"**Continue with 02: {found[2].link()}**" in told
    assert "| **next** |" in told


def test_the_page_follows_the_learner_and_says_with_what_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress"))
    folder = tmp_path / "lessons"
    folder.mkdir()
    lessons.provide(folder)
    assert front_page.write(folder) and "| progress |" not in (folder / front_page.NAME).read_text()
    with progress_file.changed() as kept:
        kept["exercises"] |= dict.fromkeys(("my_sum", "estimate_pi"), {})
    assert front_page.write(folder)
    told = (folder / front_page.NAME).read_text()
    assert "| done |" in told and "**Continue with 01: [Send a tensor" in told


def test_a_page_to_which_a_learner_added_notes_stays(tmp_path):
    shutil.copy(LESSONS[0], tmp_path)
    assert front_page.write(tmp_path)
    with (tmp_path / front_page.NAME).open("a") as file:
        file.write("my notes\n")
    mine = (tmp_path / front_page.NAME).read_text()
    assert not front_page.write(tmp_path) and (tmp_path / front_page.NAME).read_text() == mine


@pytest.mark.parametrize(
    ("touched", "done", "following"),
    [
        ("", "", "0"),
        ("1", "", "1"),
        ("01", "01", "2"),
        ("13", "1", "3"),
        ("3", "3", "0"),
        ("0123", "0123", ""),
    ],
)
def test_what_to_go_on_with(touched, done, following):
    found = [progress_file.Standing(n, n, (int(n in done), 1), (0, 0), (0, 0), n in touched) for n in "0123"]
    told = progress_file.to_continue(found)
    assert (told.number if told else "") == following


@pytest.mark.slow
def test_help_says_labkits_own_options_first():
    asked = [sys.executable, "-m", "labkit.commands", "lab", "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=60).stdout
    assert told.startswith("labkit lab [FOLDER]") and "JupyterLab - An extensible" in told


@pytest.mark.parametrize("asked", [[], [jupyterlab.WITH_OUTPUTS]])
def test_what_stands_below_a_prediction_is_not_seen_before_it(tmp_path, monkeypatch, asked):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    folder = tmp_path / "course"
    folder.mkdir()
    words = jupyterlab.command([f"{jupyterlab._ROOT}{folder}", *asked])
    assert jupyterlab.WITH_OUTPUTS not in words, "JupyterLab does not know it"
    for stored in LESSONS:
        given, there = (json.loads(path.read_text()) for path in (folder / stored.name, stored))
        code = [cell for cell in given["cells"] if cell["cell_type"] == "code"]
        assert any(cell["outputs"] for cell in code) == bool(asked)
        assert [cell["source"] for cell in given["cells"]] == [cell["source"] for cell in there["cells"]]


def test_a_page_that_somebody_else_wrote_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    shutil.copy(LESSONS[0], tmp_path)
    (tmp_path / front_page.NAME).write_text("# My notes")
    assert not any("default_url" in word for word in jupyterlab.command([f"{jupyterlab._ROOT}{tmp_path}"]))
    assert "index.md is yours" in capsys.readouterr().err
    assert (tmp_path / front_page.NAME).read_text() == "# My notes"
    (tmp_path / front_page.NAME).unlink()
    assert front_page.write(tmp_path) and front_page.write(tmp_path), "its own page is made anew"


@pytest.mark.parametrize("torn", ["", '{"cells": [', "{}", "[]"])
def test_a_torn_lesson_is_named_and_the_others_are_there(tmp_path, monkeypatch, capsys, torn):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    (tmp_path / LESSONS[0].name).write_text(torn)
    jupyterlab.command([f"{jupyterlab._ROOT}{tmp_path}"])
    assert f"{LESSONS[0].name} is no notebook" in capsys.readouterr().err
    assert (tmp_path / LESSONS[0].name).read_text() == torn
    assert [x.file for x in front_page.lessons(tmp_path)] == [path.name for path in LESSONS[1:]]


def shown(workspace):
    dock = workspace["data"]["layout-restorer:data"]["main"]["dock"]
    area = dock if dock["type"] == "tab-area" else dock["children"][0]
    return area["widgets"], area["widgets"][area["currentIndex"]]


@pytest.mark.parametrize("split", [False, True])
def test_the_front_page_joins_the_tabs_that_were_open(split):
    area = {"type": "tab-area", "currentIndex": 0, "widgets": ["notebook:mine.ipynb"]}
    dock = {"type": "split-area", "sizes": [1.0], "children": [area]} if split else area
    before = {
        "data": {"layout-restorer:data": {"main": {"dock": dock}}, "x": 1},
        "metadata": {"id": "labkit"},
    }
    after = front_page.open_in(before)
    assert shown(after) == (["notebook:mine.ipynb", front_page._WIDGET], front_page._WIDGET)
    assert shown(front_page.open_in(after))[0].count(front_page._WIDGET) == 1
    assert after["data"]["x"] == 1
    assert shown(front_page.open_in({"data": {}})) == ([front_page._WIDGET], front_page._WIDGET)


def test_at_a_hub_it_is_the_hubs_server_with_the_same_front_page(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    folder = tmp_path / "course"
    folder.mkdir()
    asked = [f"{jupyterlab._ROOT}{folder}"]
    alone = jupyterlab.command(asked)
    monkeypatch.setenv(jupyterlab.HUB, "http://127.0.0.1:1234/user/ada/")
    at_hub = jupyterlab.command(asked)
    assert alone[1:3] == ["-m", "jupyterlab"] and at_hub[1:4] == ["-s", "-m", "jupyterhub.singleuser"]
    assert f"--ServerApp.default_url=/lab/workspaces/{jupyterlab.WORKSPACE}" in at_hub
    assert set(alone[3:]) - set(at_hub) == {f"--LabApp.default_url=/lab/workspaces/{jupyterlab.WORKSPACE}"}


def test_the_command_opens_the_front_page(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    command = jupyterlab.command(["--no-browser"])
    assert f"--ServerApp.root_dir={folder}" in command and command[-1] == "--no-browser"
    assert "--LabApp.default_url=/lab/workspaces/labkit" in command
    (saved,) = (tmp_path / "workspaces").iterdir()
    assert json.loads(saved.read_text())["data"][front_page._WIDGET]["data"]["path"] == front_page.NAME


def test_in_a_clone_a_learner_has_copies_without_outputs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    (tmp_path / "clone" / "notebooks").mkdir(parents=True)
    shutil.copy(LESSONS[0], tmp_path / "clone" / "notebooks")
    monkeypatch.chdir(tmp_path / "clone")
    assert f"--ServerApp.root_dir={tmp_path / 'clone' / 'lessons'}" in jupyterlab.command([])
    mine = nbformat.read(tmp_path / "clone" / "lessons" / LESSONS[0].name, as_version=4)
    assert not any(cell.get("outputs") for cell in mine.cells)
    monkeypatch.chdir(tmp_path)  # neither empty nor with lessons
    assert not any("default_url" in word for word in jupyterlab.command([]))
    assert "no lessons here" in capsys.readouterr().err
