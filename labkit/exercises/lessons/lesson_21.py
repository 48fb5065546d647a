"""Lesson 21, Half the bits, twice the compute: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.loss_scale import SCALED_STEP
from labkit.exercises.lessons.sixteen_bits import MASTER_STEP, SCALED_UPDATE

LESSON = Lesson(
    number="21",
    title="Half the bits, twice the compute",
    predictions=(Prediction("ring_of_ones", "ones"),),
    exercises=(MASTER_STEP, SCALED_UPDATE, SCALED_STEP),
    questions=(
        Question(
            "You train with weights in bfloat16 and no masters. The loss falls, and then stands still far "
            "above that of float32. Why?",
            (
                Choice(
                    "The gradients underflow.",
                    "bfloat16 has the range of float32: they are there. It is the sum with the weight that "
                    "loses them.",
                ),
                Choice(
                    "The updates are less than half a spacing of the weights.",
                    "Below a 256th of the weight an update is rounded away. A float32 master keeps it.",
                ),
                Choice(
                    "The all-reduce rounds.",
                    "It errs by less than a per cent, in both directions; the loss does not stand still for "
                    "that.",
                ),
            ),
            right="b",
        ),
        Question(
            "The gradient of one of 64 ranks has an inf. Where must the ranks look, so that all skip the "
            "step?",
            (
                Choice(
                    "In the sum, after the all-reduce",
                    "inf plus anything is inf or nan, so every rank sees it without a further message.",
                ),
                Choice(
                    "In their own gradients, before the all-reduce",
                    "63 ranks would find nothing, and call an all-reduce to which one never comes.",
                ),
                Choice(
                    "In the loss",
                    "The loss may be finite: it is its gradient, times the scale, that overflows.",
                ),
            ),
            right="a",
        ),
        Question(
            "A network has 400 equal layers. You keep the input of every 20th and compute the rest again. "
            "How many tensors are kept at most, and how much more do you compute?",
            (
                Choice("20, and twice as much", "The segment that is computed again is kept, too."),
                Choice("40, and twice as much", "The forward pass is a third of the work."),
                Choice(
                    "40, and a third more",
                    "20 inputs and 20 outputs of one segment; a forward pass beside one forward and a "
                    "backward pass of two.",
                ),
            ),
            right="c",
        ),
    ),
)
