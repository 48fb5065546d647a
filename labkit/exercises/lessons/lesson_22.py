"""Lesson 22, Survive a lost rank: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.late_write import LATE_WRITE
from labkit.exercises.lessons.rest_of_epoch import REST_OF_EPOCH
from labkit.exercises.lessons.useful_share import USEFUL_SHARE

LESSON = Lesson(
    number="22",
    title="Survive a lost rank",
    predictions=(Prediction("save_every", "minutes"), Prediction("year_lost", "%")),
    exercises=(REST_OF_EPOCH, USEFUL_SHARE, LATE_WRITE),
    questions=(
        Question(
            "You go from 1,024 ranks to four times as many. A save stops the training for as long as before. "
            "The best time between two saves becomes",
            (
                Choice("a quarter", "Failures are four times as frequent, but the interval goes by a root."),
                Choice("half", "The mean time between failures is a quarter, and the interval its root."),
                Choice("no other", "With four times as many failures each interval is lost more often."),
            ),
            right="b",
        ),
        Question(
            "Three of four ranks go on, each with as many samples in a step as before: the batch is 45, "
            "not 60. Then",
            (
                Choice(
                    "it is another training: more steps in an epoch, and a noisier gradient in each",
                    "The batch is a part of the training. Who keeps it gives each rank more samples.",
                ),
                Choice(
                    "the curve goes on, equal to rounding",
                    "That was so because all three together took the same 60 samples as before.",
                ),
                Choice(
                    "a quarter of the samples is never seen",
                    "The order belongs to all ranks; what is left of it is shared by those that are left.",
                ),
            ),
            right="a",
        ),
        Question(
            "A rank dies while the save of step 30 is written. The folder has files of three ranks, and the "
            "save of step 20 is complete. The training goes on from",
            (
                Choice("30, with the files that are there", "A part of the weights is in none of them."),
                Choice(
                    "30 for three ranks, and 20 for the fourth",
                    "Shards of two moments make a network that never was.",
                ),
                Choice(
                    "20",
                    "Metadata come last, so that a save which has them is whole. That of step 30 has none.",
                ),
            ),
            right="c",
        ),
    ),
)
