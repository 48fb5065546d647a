"""Every lesson asks what its exercises file describes: predictions, exercises and questions."""

import re

import pytest

from labkit.exercises.catalogue import LESSONS


@pytest.fixture
def asked(path):
    """The description that belongs to the notebook."""
    there = {lesson.number: lesson for lesson in LESSONS}
    number = path.stem[:2]
    assert number in there, f"there is no labkit/exercises/lessons/lesson_{number}.py"
    return there[number]


def has(code, start: str) -> bool:
    return any(line.startswith(start) for cell in code for line in cell.source.splitlines())


def test_the_title_is_the_notebooks(asked, prose):
    assert re.search(r"^# (.+)$", prose, re.MULTILINE)[1] == asked.title


def test_predictions_are_asked_for_and_answered(asked, code):
    assert asked.predictions, "ask for one prediction at least"
    for prediction in asked.predictions:
        asks = f'labkit.predict("{prediction.name}", None)'
        answers = [f'labkit.predict("{prediction.name}", {how}=' for how in ("measured", "computed")]
        assert has(code, asks), f"no line of a cell begins with {asks}"
        assert any(has(code, answer) for answer in answers), f"no line begins with {' or '.join(answers)}"


def test_exercises_have_a_task_a_stub_and_a_check(asked, code, prose):
    assert 2 <= len(asked.exercises) <= 5, f"{len(asked.exercises)} exercises; a lesson has two to five"
    sources = [cell.source for cell in code]
    for exercise in asked.exercises:
        name, stub = exercise.name, f"%%px\n{exercise.stub.rstrip()}"
        assert exercise.task in prose, f"the prose lacks the task of {name}, word for word:\n{exercise.task}"
        assert stub in sources, f"no cell is exactly the stub of {name}:\n{stub}"
        check = f'labkit.check("{name}")'
        assert check in sources[sources.index(stub) + 1 :], f"no cell after the stub of {name} is {check}"
        assert len(exercise.hints) >= 2 and exercise.why, f"{name} needs two hints and a why"


def test_each_exercise_says_how_hard_it_is_and_how_long_it_takes(asked, prose):
    for exercise in asked.exercises:
        said = rf"\((?:easy|medium|harder|hard), \d+ minutes\.?\)[^\n]{{0,100}}{re.escape(exercise.task)}"
        assert re.search(said, prose, re.IGNORECASE), (
            f'say (easy, 5 minutes) before the task of "{exercise.name}"'
        )


def test_a_learner_s_lab_has_the_ranks_that_the_checks_want(asked, code):
    asked_for = r"(?:labkit\.start|lab\.restart)\((?:ranks=)?(\d+)"
    ranks = max(int(found) for cell in code for found in re.findall(asked_for, cell.source))
    assert ranks >= max(size for exercise in asked.exercises for size in exercise.sizes)


def test_each_lesson_from_01_on_has_a_bug_to_find(asked):
    if asked.number == "00":
        pytest.skip("the first lesson has none")
    assert any("**Find the bug and mend it" in exercise.task for exercise in asked.exercises)


def test_two_right_letters_do_not_give_the_third():
    keys = ["".join(question.right for question in lesson.questions) for lesson in LESSONS]
    permutations = sum(len(set(key)) == len(key) for key in keys)
    assert permutations < len(keys) / 2, f"of {keys} so many have each letter once: {permutations}"
    assert all(keys.count(key) < 5 for key in keys), keys
    letters = "".join(keys)
    assert min(map(letters.count, "abc")) > len(letters) / 5, "a letter is hardly ever right"


def test_three_questions_with_a_reason_for_every_choice(asked, code):
    assert len(asked.questions) == 3, f"{len(asked.questions)} questions; a lesson has three"
    for name, question in asked.named_questions.items():
        call = f'labkit.ask("{name}", None)'
        assert has(code, call), f"no line of a cell begins with {call}"
        assert question.right in question.lettered, f"{name} has no choice {question.right!r}"
        assert all(choice.reason and choice.text for choice in question.choices), f"{name}: say why, for each"


def names(lesson) -> list[str]:
    return [asked.name for asked in (*lesson.exercises, *lesson.predictions)]


def test_names_are_used_once(asked):
    elsewhere = {name: lesson.number for lesson in LESSONS if lesson != asked for name in names(lesson)}
    taken = [f"{name} (lesson {elsewhere[name]})" for name in names(asked) if name in elsewhere]
    twice = [name for name in set(names(asked)) if names(asked).count(name) > 1]
    assert taken + twice == [], f"names used twice in the course: {', '.join(taken + twice)}"
