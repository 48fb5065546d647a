"""Every lesson asks what its exercises file describes: predictions, exercises and questions."""

import re

import pytest

from labkit.exercises.catalogue import LESSONS


@pytest.fixture
def asked(path):
    """The description that belongs to the notebook."""
    return next((lesson for lesson in LESSONS if lesson.number == path.stem[:2]), None)


def has(code, start: str) -> bool:
    return any(line.startswith(start) for cell in code for line in cell.source.splitlines())


def test_the_title_is_the_notebooks(asked, prose):
    assert re.search(r"^# (.+)$", prose, re.MULTILINE)[1] == asked.title


def test_predictions_are_asked_for_and_measured(asked, code):
    assert asked.predictions
    for prediction in asked.predictions:
        assert has(code, f'labkit.predict("{prediction.name}", None)'), prediction
        assert has(code, f'labkit.predict("{prediction.name}", measured='), prediction


def test_exercises_have_a_task_a_stub_and_a_check(asked, code, prose):
    assert 2 <= len(asked.exercises) <= 3
    sources = [cell.source for cell in code]
    for exercise in asked.exercises:
        assert exercise.task in prose
        stub = sources.index(f"%%px\n{exercise.stub.rstrip()}")
        assert f'labkit.check("{exercise.name}")' in sources[stub + 1 :]
        assert len(exercise.hints) >= 2 and exercise.why


def test_three_questions_with_a_reason_for_every_choice(asked, code):
    assert len(asked.questions) == 3
    for name, question in asked.named_questions.items():
        assert has(code, f'labkit.ask("{name}", None)')
        assert question.right in question.lettered
        assert all(choice.reason and choice.text for choice in question.choices)


def test_names_are_used_once():
    names = [e.name for lesson in LESSONS for e in lesson.exercises]
    names += [p.name for lesson in LESSONS for p in lesson.predictions]
    assert len(names) == len(set(names))
