"""A new lesson has the frame from the start: what is missing is only what must be written."""

import runpy

import nbformat
import pytest
import torch

from labkit.exercises.describe import Answers

from . import test_exercises, test_frame
from .new_lesson import make

TITLE = "Keep the weights on a server: parameter servers"


@pytest.fixture
def files(tmp_path):
    return make(7, TITLE, tmp_path)


@pytest.fixture
def path(files):
    return files[0]


@pytest.fixture
def lesson(path):
    return nbformat.read(path, as_version=4)


def test_it_is_named_by_its_title(path):
    assert path.name == "08_keep_the_weights_on_a_server.ipynb"


def test_it_has_the_frame(path, lesson):
    code = [cell for cell in lesson.cells if cell.cell_type == "code"]
    prose = "\n\n".join(cell.source for cell in lesson.cells if cell.cell_type == "markdown")
    test_frame.test_one_title_and_a_name_that_match(path, prose)
    test_frame.test_sections_in_order(prose)
    test_frame.test_the_header_says_what_the_lesson_is_for(lesson)
    test_frame.test_cells_are_short(code)
    test_frame.test_prose_comes_before_code(lesson)
    assert 12 <= len(code) <= 24 and lesson.cells[-1].cell_type == "markdown"
    with pytest.raises(AssertionError, match="still to write:"):
        test_frame.test_nothing_is_left_to_write(path)


def test_what_is_left_to_write_is_found_in_cells_exercises_and_answers(files):
    left = "\n".join(test_frame.left_to_write(files[0]))
    assert "08_keep_the_weights_on_a_server.ipynb, cell 1: | **Question** | TODO" in left
    assert ': trace.plot("TODO' in left
    assert (
        "labkit/exercises/lessons/lesson_08.py: why=" in left
        and "tests/exercises/answers_08.py: # TODO" in left
    )


def test_what_its_cells_ask_is_described(files, lesson):
    asked, answers = runpy.run_path(files[1])["LESSON"], runpy.run_path(files[2])
    code = [cell for cell in lesson.cells if cell.cell_type == "code"]
    prose = "\n\n".join(cell.source for cell in lesson.cells if cell.cell_type == "markdown")
    test_exercises.test_the_title_is_the_notebooks(asked, prose)
    test_exercises.test_predictions_are_asked_for_and_measured(asked, code)
    test_exercises.test_exercises_have_a_task_a_stub_and_a_check(asked, code, prose)
    test_exercises.test_three_questions_with_a_reason_for_every_choice(asked, code)
    for exercise in asked.exercises:
        arguments = exercise.given(torch.Generator(), 4)
        mine = [tensor for (tensor,) in arguments]
        assert not exercise.judge(Answers(arguments, [sum(mine)] * 4))
        assert answers["WRONG"][exercise.name]["own tensor"][1] in exercise.judge(Answers(arguments, mine))


def test_a_number_that_is_taken_is_refused(path, tmp_path):
    with pytest.raises(ValueError, match="lesson 08 is 08_keep_the_weights_on_a_server.ipynb"):
        make(7, "Something else", tmp_path)


def test_a_title_that_names_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="names no file"):
        make(8, "重みを置く", tmp_path)
