"""Lesson 12, Grow the batch: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.noise import NOISE
from labkit.exercises.lessons.shares import SHARES

LESSON = Lesson(
    number="12",
    title="Grow the batch",
    predictions=(Prediction("iterations_32", "iterations"), Prediction("accuracy_512", "%")),
    exercises=(NOISE, SHARES),
    questions=(
        Question(
            "The noise scale of your network is about 100, and you train with batches of 3,200. You double "
            "the ranks, each with as many samples as before. The iterations to the same loss become",
            (
                Choice("half as many", "That is so far below the noise scale, where noise limits the step."),
                Choice(
                    "hardly fewer",
                    "The gradient has next to no noise left: a better one points the same way.",
                ),
                Choice("more", "A larger batch never makes the gradient worse. It makes each step dearer."),
            ),
            right="b",
        ),
        Question(
            "You raise the momentum from 0.9 to 0.95 and keep the rate. The training shall be as noisy as "
            "before. The batch becomes, for a large data set,",
            (
                Choice("half as large", "That makes the noise twice as large once more."),
                Choice("5 % larger", "It is 1 - m that counts, and that has halved."),
                Choice(
                    "twice as large",
                    "Each gradient now moves the weights by twice as much in all: rate / (1 - m).",
                ),
            ),
            right="c",
        ),
        Question(
            "On 1,024 GPUs an all-reduce takes a quarter of each step. You give each GPU four times as many "
            "samples. What becomes of that share?",
            (
                Choice(
                    "It falls to about a thirteenth",
                    "The all-reduce takes as long as before, computing four times as long: 1 against 12.",
                ),
                Choice(
                    "It stays a quarter", "The gradient has as many numbers as before, whatever the batch."
                ),
                Choice("It grows", "More samples make no more gradients to send, only more to compute."),
            ),
            right="a",
        ),
    ),
)
