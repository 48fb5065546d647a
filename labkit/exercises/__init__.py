"""Predictions, exercises with checks, and questions: what each lesson asks, and what is said to an answer.

A lesson is described in one file, `lesson_NN.py`, as data; the rest of the package is for all lessons.
"""

from labkit.exercises.grade import check
from labkit.exercises.progress_file import progress
from labkit.exercises.prompts import ask, hint, predict, solution

__all__ = ["ask", "check", "hint", "predict", "progress", "solution"]
