"""Pipeline schedules that wait less: interleaved 1F1B, and backward passes in two parts. Built in lesson 17.

D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC
2021, arXiv 2104.04473, section 2.2. P. Qi, X. Wan, G. Huang and M. Lin, "Zero bubble pipeline parallelism",
ICLR 2024, arXiv 2401.10241, section 2.
"""

from labkit.schedule import Backward, BackwardWeight, Forward
from labkit.schedule.pipeline import Slot


def interleaved(ranks: int, microbatches: int, pieces: int) -> list[list[Slot]]:
    """1F1B where each rank has so many pieces of the model: the bubble is divided by their number.

    Micro-batches go through the pieces in groups of `ranks`, which must divide their number.

    Built in lesson 17.

    >>> print(*interleaved(2, 2, 2)[1])
    F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1
    """
    groups = range(0, microbatches, ranks)
    order = [(g + m, p) for g in groups for p in range(pieces) for m in range(ranks)]
    slots: list[list] = []
    for rank in range(ranks):
        ahead = min(2 * (ranks - rank - 1) + (pieces - 1) * ranks + 1, len(order))
        slots.append([Forward(*one) for one in order[:ahead]])
        for n, (m, p) in enumerate(order):
            slots[rank].append(Backward(m, pieces - 1 - p))
            slots[rank] += [Forward(*one) for one in order[ahead + n : ahead + n + 1]]
    return slots


def zero_bubble(stages: int, microbatches: int) -> list[list[Slot]]:
    """ZB-H1: 1F1B whose gradients of weights come later, where a stage would wait.

    Stage s puts off s of them, so every stage stores `stages` micro-batches. Built in lesson 17.

    >>> for own in zero_bubble(2, 3):
    ...     print(*own)
    F0 F1 B0 W0 F2 B1 W1 B2 W2
    F0 B0 F1 B1 W0 F2 B2 W1 W2
    """
    slots: list[list] = []
    for stage in range(stages):
        ahead = min(stages - stage, microbatches)
        slots.append([Forward(m) for m in range(ahead)])
        for m in range(microbatches + stage):
            slots[stage] += [Backward(m)] if m < microbatches else []
            slots[stage] += [BackwardWeight(m - stage)] if m >= stage else []
            slots[stage] += [Forward(m + ahead)] if m + ahead < microbatches else []
    return slots
