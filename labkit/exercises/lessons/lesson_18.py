"""Lesson 18, Share the state: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.clipping import CLIP_PARTS
from labkit.exercises.lessons.early_steps import ACCUMULATE_SHARDED
from labkit.exercises.lessons.stage_1 import SHARDED_STEP
from labkit.exercises.lessons.stage_2 import SHARDED_BACKWARD
from labkit.exercises.lessons.stage_3 import SHARDED

LESSON = Lesson(
    number="18",
    title="Share the state: ZeRO and FSDP",
    predictions=(Prediction("bytes_a_parameter", "bytes"), Prediction("stage_3_traffic", "times")),
    exercises=(SHARDED_STEP, SHARDED_BACKWARD, SHARDED, ACCUMULATE_SHARDED, CLIP_PARTS),
    questions=(
        Question(
            "You go from plain data parallelism to stage 2, on 64 ranks with ring collectives. What does a "
            "step send?",
            (
                Choice(
                    "Half as much: a reduce-scatter is half of an all-reduce",
                    "The other half comes after the step: the new weights are gathered.",
                ),
                Choice("Three halves as much", "That is stage 3, which gathers the weights twice."),
                Choice(
                    "As much as before",
                    "The all-gather that ended the all-reduce now carries weights in place of gradients.",
                ),
            ),
            right="c",
        ),
        Question(
            "With stage 3 on very many ranks, what keeps a rank's memory from going to zero?",
            (
                Choice(
                    "The optimiser's state", "It is cut as all the rest: 12 bytes a parameter over R ranks."
                ),
                Choice(
                    "The layer that is at work, and activations",
                    "Weight and gradient of one layer are whole for a while, and activations belong to a "
                    "rank's own samples: stages cut state alone.",
                ),
                Choice("A copy of the weights", "No rank has all of them at any time."),
            ),
            right="b",
        ),
        Question(
            "What do stage 3 and tensor parallelism (lesson 16) have in common?",
            (
                Choice(
                    "A rank keeps a part of each matrix",
                    "But at stage 3 it computes with the whole one, on samples of its own: weights travel, "
                    "activations stay. In tensor parallelism it is the other way round.",
                ),
                Choice(
                    "All ranks work on the same samples",
                    "That is so in tensor parallelism alone. Stage 3 is data parallelism.",
                ),
                Choice(
                    "Activations are added up over ranks",
                    "That is so in tensor parallelism alone. At stage 3 weights and gradients travel.",
                ),
            ),
            right="a",
        ),
    ),
)
