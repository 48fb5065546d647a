"""A learner gets the lessons, and never loses what was made of them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from labkit import LabError
from labkit.commands import front_page, lessons, page, reset
from tests.environments import environment_without, pip, wheel_of_labkit

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*_*.ipynb"))


def test_a_lesson_is_put_back_and_each_version_kept(tmp_path, monkeypatch, capsys):
    lessons.provide(tmp_path)
    lesson = tmp_path / LESSONS[5].name
    installed = lesson.read_text()
    monkeypatch.chdir(tmp_path)
    for text, kept in (("first", f"my_{lesson.name}"), ("second", f"my_{lesson.stem}_2.ipynb")):
        lesson.write_text(text)
        assert reset.main([lesson.name[:2]]) == 0 and kept in capsys.readouterr().out
        assert (tmp_path / kept).read_text() == text and lesson.read_text() == installed
    assert len(front_page.lessons(tmp_path)) == len(LESSONS), "what is kept is no lesson of the table"
    with pytest.raises(LabError, match="no lesson"):
        lessons.reset(tmp_path / "thesis.ipynb")
    with pytest.raises(LabError, match="git checkout"):
        lessons.reset(LESSONS[0])


def test_an_empty_folder_gets_the_lessons_and_what_was_changed_stays(tmp_path):
    lessons.provide(tmp_path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [path.name for path in LESSONS]
    mine, gone = tmp_path / LESSONS[0].name, tmp_path / LESSONS[1].name
    mine.write_text(mine.read_text().replace("Meet the ranks", "My own title"))
    gone.unlink()
    lessons.provide(tmp_path)
    assert "My own title" in mine.read_text() and gone.exists()
    assert front_page.write(tmp_path) and "My own title" in (tmp_path / front_page.NAME).read_text()


@pytest.mark.parametrize("mine", ["thesis.tex", "01_my_own.ipynb"])
def test_a_folder_of_other_things_is_left_alone(tmp_path, mine):
    shutil.copy(LESSONS[0], tmp_path / mine)
    lessons.provide(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [mine]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_leaves_whole_lessons_or_none(tmp_path, monkeypatch):
    usual = os.open

    def full(path, *how, **options):
        made = usual(path, *how, **options)
        if str(path).startswith(str(tmp_path)):
            nowhere = usual("/dev/full", os.O_WRONLY)
            os.dup2(nowhere, made)
            os.close(nowhere)
        return made

    shutil.copy(LESSONS[0], tmp_path)
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(LabError, match="No space left"):
        lessons.provide(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LESSONS[0].name]


@pytest.mark.slow
def test_an_installed_wheel_brings_the_lessons(tmp_path):
    """In an environment without the clone, and in a folder that is empty."""
    clone = ("PYTHONPATH", "COVERAGE")  # what is measured is measured by a plugin of the clone's
    environment = {key: value for key, value in os.environ.items() if not key.startswith(clone)}
    python, folder = environment_without(["labkit"], tmp_path / "venv"), tmp_path / "empty"
    pip(python, "install", "--no-deps", wheel_of_labkit(tmp_path))
    folder.mkdir()
    code = "from pathlib import Path; from labkit.commands import lessons; lessons.provide(Path())"
    subprocess.run([python, "-c", code], cwd=folder, env=environment, check=True, timeout=120)
    assert [path.name for path in sorted(folder.iterdir())] == [path.name for path in LESSONS]
    code = "import sys; from labkit.commands import page; print(sys.prefix, page.HERE)"
    told = subprocess.run([python, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    prefix, here = map(Path, told.stdout.split())
    assert (prefix / "etc" / "ipython" / "ipython_kernel_config.json").exists()
    given = [path.relative_to(page.HERE) for path in page.HERE.rglob("*.js*")]
    assert len(given) == 5 and all((here / path).exists() for path in given)
