"""Judging how a learner cuts layers into stages: the fullest stage is to hold as little as possible.

A cut is the number of layers of each stage, `sizes` what each layer holds, in MB.
"""

from itertools import combinations, pairwise


def equal(layers: int, stages: int) -> list[int]:
    """As many layers in each stage as in any other, or one more."""
    return [layers * (s + 1) // stages - layers * s // stages for s in range(stages)]


def fullest(cut: list[int], sizes: list[int]) -> int:
    """What the fullest stage holds."""
    ends = [sum(cut[: n + 1]) for n in range(len(cut))]
    return max(sum(sizes[a:b]) for a, b in pairwise([0, *ends]))


def least(sizes: list[int], stages: int) -> int:
    """The least that the fullest of so many stages can hold: all ways to cut are tried."""
    cuts = combinations(range(1, len(sizes)), min(stages, len(sizes)) - 1)
    return min(fullest([b - a for a, b in pairwise([0, *cut, len(sizes)])], sizes) for cut in cuts)


def wrong_cut(cut: object, sizes: list[int], stages: int) -> str:
    """What is wrong with it; nothing where no cut is better."""
    if cut is None:
        return "Nothing came back: a function without `return` returns None."
    if not isinstance(cut, list) or any(type(n) is not int or n < 0 for n in cut):
        return "A list was expected: for each rank its number of layers."
    if len(cut) != stages:
        return f"There are {stages} ranks, and {len(cut)} numbers."
    if sum(cut) != len(sizes):
        return f"There are {len(sizes)} layers, and the numbers add up to {sum(cut)}."
    found, best = fullest(cut, sizes), least(sizes, stages)
    if found == best:
        return ""
    alike = " Equal numbers of layers are not equal numbers of bytes." * (cut == equal(len(sizes), stages))
    return f"The fullest rank holds {found} MB; {best} MB are enough.{alike}"
