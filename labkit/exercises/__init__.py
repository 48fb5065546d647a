"""What lessons ask, and how answers are judged: predictions, exercises with checks, questions.

describe        an exercise, its other answers, and questions as data; nothing runs
lessons/        that data, one file a lesson
questions.toml  the questions of all lessons
course          which lessons a teacher's own course has
catalogue       all of it, by name
prompts         `predict`, `ask`, `hint`, `solution`, what is said to the learner
grade           `check`, the learner's function on every rank, in several worlds; `show`, what they did;
                `require`, the same judge for another grader's checks
answer          the source of an answer, with what it needs of the notebook
mistake         what a mistake is called, whoever makes it
known           which of those names are labkit's own
newest          has a name's latest definition reached the ranks?
on_rank         what runs on a rank for that
requests        on a rank: is what was posted waited for?
held            on a rank: the bytes that the function holds
measure         what the function used, against its budget
cases           a function that is called with several cases on each rank
judge           from all ranks' answers to what is wrong with them
demands         what an exercise asks of the way beside the values
submission      what a learner hands in, as one file
sharing         what a learner lets the teacher see of it
progress_file   what the learner has done, kept across kernels
lazy_torch      torch, imported only when needed
"""

from labkit.exercises.grade import check, require, show
from labkit.exercises.progress_file import progress
from labkit.exercises.prompts import ask, hint, predict, solution

__all__ = ["ask", "check", "hint", "predict", "progress", "require", "show", "solution"]
