"""What labkit says to a learner who predicts, answers, or asks for help."""

import math
import reprlib
import textwrap

from labkit import LabError
from labkit.exercises.catalogue import exercise_named, prediction_named, question_named
from labkit.exercises.measure import number
from labkit.exercises.progress_file import changed, read

WIDTH = 80


def predict(
    name: str, value: float | None = None, *, measured: float | None = None, computed: float | None = None
) -> None:
    """Keep the learner's number; later, set it beside what was measured. Every lesson asks for one.

    >>> labkit.predict("turns", 3)              # before the experiment; None: no number yet
    noted: 3 T. The lesson will find it.
    >>> labkit.predict("turns", measured=2.1)   # after it
    you said 3 T, measured 2.1 T: off by +43%

    `computed` takes the place of `measured` for what a formula or a simulation gives. The number outlives
    the kernel. LabError if there is no such prediction, or no number.
    """
    unit = prediction_named(name).unit
    found, how = (measured, "measured") if computed is None else (computed, "computed")
    if found is not None:
        said = read()["predictions"].get(name)
        told = f"{how} {number(found)} {unit}"
        if said is None:
            print(f"you said no number; {told}")
        else:
            print(f"you said {number(said)} {unit}, {told}: {_off(said, found, unit)}")
    elif value is None:
        print("no number yet: put yours in place of None and run the cell again")
    else:
        noted = _number(value)
        if noted is None:
            asked = f"to note {reprlib.repr(value)}"
            raise LabError(asked, "that is no number", f'labkit.predict("{name}", 1.5)')
        with changed() as progress:
            progress["predictions"][name] = noted
        print(f"noted: {number(noted)} {unit}. The lesson will find it.")


def _number(value: object) -> float | None:
    """A finite number as a float, or None."""
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        found = float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return found if math.isfinite(found) else None


def _off(said: float, found: float, unit: str) -> str:
    if said == found:
        return "exactly"
    if unit == "%":
        points = number(abs(said - found))
        return f"{points} point{'s' * (points != '1')} too {'high' if said > found else 'low'}"
    return f"off by {said / found - 1:+.0%}" if found else f"off by {said - found:+.3g}"


def ask(name: str, answer: str | None = None) -> None:
    """Print a multiple-choice question; with a letter as answer, whether it is right, and why.

    >>> labkit.ask("02.3", "c")
    02.3  (c) 18: right. 2(R - 1): nine to the root, nine back.

    LabError if there is no such question or letter.
    """
    question = question_named(name)
    choices = question.lettered
    letter = str(answer).strip(" ()").lower()
    if answer is not None and letter not in choices:
        fix = f"one of {', '.join(choices)}"
        raise LabError(f"answer {reprlib.repr(answer)} to question {name}", "there is no such choice", fix)
    if answer is None or letter != question.right:
        print(_wrapped(f"{name}  {question.text}", 6))
        for each, choice in choices.items():
            print(_wrapped(f"      ({each}) {choice.text}", 10))
        print()
    if answer is None:
        return
    with changed() as progress:
        # Whoever goes on to read the other reasons keeps the right answer.
        if progress["questions"].get(name) != question.right:
            progress["questions"][name] = letter
    verdict = "right." if letter == question.right else "no."
    print(
        _wrapped(
            f"{name}  ({letter}) {choices[letter].text.rstrip('.')}: {verdict} {choices[letter].reason}", 6
        )
    )


def hint(name: str) -> None:
    """Print the next hint for an exercise, below those that were given before.

    >>> labkit.hint("swap")
    hint 1 of 2: Allocate first. ...

    LabError if there is no such exercise.
    """
    hints = exercise_named(name).hints
    with changed() as progress:
        seen = progress["hints"][name] = min(progress["hints"].get(name, 0) + 1, len(hints))
    for i, text in enumerate(hints[:seen], 1):
        print(_wrapped(f"hint {i} of {len(hints)}: {text}", 13))
    if seen == len(hints):
        print(f'That was the last one. labkit.solution("{name}") shows an answer.')


def solution(name: str) -> None:
    """Print an answer to an exercise, and why it is one. The tests of labkit put it into the lesson.

    >>> labkit.solution("swap")
    def swap(mine):
        ...

    LabError if there is no such exercise.
    """
    exercise = exercise_named(name)
    print(f"{exercise.solution.rstrip()}\n\n{_wrapped(exercise.why, 0)}")


def _wrapped(text: str, indent: int) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent)
