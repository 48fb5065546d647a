"""Judges: from the answers of all ranks to what is wrong with them, in words that help."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from labkit.exercises.describe import Answers
from labkit.exercises.lazy_torch import torch
from labkit.rank.wording import ranks

SHOWN = 6
"""Elements of a tensor that a sentence shows."""


@dataclass(frozen=True)
class LikeSolution:
    """A judge who compares what ranks gave with what the solution gives there, within a relative tolerance.

    The tolerance is relative to the largest expected element. `only_rank_0`: what the others give is theirs.
    `part` names what is compared of answers that are dicts; what else ranks noted is for the demands.
    """

    tolerance: float = 1e-4
    only_rank_0: bool = False
    part: str = ""

    def wrong(self, answers: Answers) -> list[int]:
        """The ranks whose answers differ from what is expected."""
        answers, count = self._compared(answers), 1 if self.only_rank_0 else answers.size
        return [r for r in range(count) if not agree(answers.found[r], answers.expected[r], self.tolerance)]

    def __call__(self, answers: Answers) -> str:
        wrong, answers = self.wrong(answers), self._compared(answers)
        return different(answers, answers.expected, wrong, self.tolerance) if wrong else ""

    def _compared(self, answers: Answers) -> Answers:
        if not self.part:
            return answers
        found, expected = ([own[self.part] for own in of] for of in (answers.found, answers.expected))
        return replace(answers, found=found, expected=expected)


def like_solution(tolerance: float = 1e-4, only_rank_0: bool = False, part: str = "") -> LikeSolution:
    """A judge who compares with the solution, run on the same ranks with the same arguments."""
    return LikeSolution(tolerance, only_rank_0, part)


def agree(found: object, expected: object, tolerance: float) -> bool:
    """Whether two answers agree: dicts by their keys, lists by their places, tensors by type and shape too.

    A number may be a tensor, of Python or of numpy. Tensors of whole numbers may have any type of them.
    """
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(agree(found[key], expected[key], tolerance) for key in expected)
        )
    if isinstance(expected, list):
        if torch.is_tensor(found):
            return close(found, expected, tolerance)
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(agree, found, expected, [tolerance] * len(found)))
        )
    if _other_type(found, expected):
        return False
    return close(found, expected, tolerance) if numbers(expected) is not None else found == expected


def _other_type(found: Any, expected: Any) -> bool:
    """Whether both are tensors of more than one number, and their types differ in exactness or in kind."""
    if not (torch.is_tensor(found) and torch.is_tensor(expected)) or expected.numel() < 2:
        return False
    floating = found.is_floating_point(), expected.is_floating_point()
    return floating[0] != floating[1] or (all(floating) and found.dtype != expected.dtype)


def different(answers: Answers, expected: list, wrong: list[int], tolerance: float) -> str:
    """Which ranks are wrong; of the first of them what it should have and has, and what that looks like."""
    first = wrong[0]
    found, right, where = _part(answers.found[first], expected[first], tolerance)
    lines = [f"{ranks(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong"]
    if _other_type(found, right) and close(found, right, 1e-2):
        names = [str(t.dtype).removeprefix("torch.") for t in (found, right)]
        return f"{lines[0]}: the numbers are {names[0]}, and {names[1]} was asked for"
    start = _first_difference(found, right, tolerance)
    where += f" (from element {start} on)" if start else ""
    should, has = show(right, start), show(found, start)
    lines += [f"  rank {first} expected {should}{where}", f"  rank {first} got      {has}"]
    if should == has and (apart := _apart(found, right)):
        lines.append(f"  they differ by {apart:.1e} of the largest number; {tolerance:.0e} is allowed")
    if all(answers.found[r] is None for r in wrong):
        return "\n".join([*lines, "Nothing came back: a function without `return` returns None."])
    return "\n".join([*lines, *_factor(answers, expected, wrong)])


def _part(found: Any, expected: Any, tolerance: float) -> tuple[Any, Any, str]:
    """Find the first entry in which two dicts or lists differ: both values, and where: " (in place 2)"."""
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        places = {f" ({key})": key for key in expected}
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        places = {f" (in place {i})": i for i in range(len(expected) if numbers(expected) is None else 0)}
    else:
        places = {}
    for where, at in places.items():
        if not agree(found[at], expected[at], tolerance):
            inner_found, inner_expected, inner = _part(found[at], expected[at], tolerance)
            return inner_found, inner_expected, where + inner
    return found, expected, ""


def _apart(found: object, expected: object) -> float:
    """How far two answers are apart, relative to the largest expected element; 0 where that says nothing."""
    a, b = numbers(found), numbers(expected)
    if a is None or b is None or a.shape != b.shape or not b.any():
        return 0.0
    return ((a - b).abs().max() / b.abs().max()).item()


def _factor(answers: Answers, right: list, wrong: list[int]) -> list[str]:
    """Say that all wrong ranks are off by the same whole factor, as by a wrong divisor; else nothing.

    Answers that are whole numbers are left out: those count something, and a factor would mean nothing.
    """
    found, expected = ([numbers(values[r]) for r in wrong] for values in (answers.found, right))
    pairs = list(zip(found, expected, strict=True))
    if any(a is None or b is None or a.shape != b.shape or not b.any() for a, b in pairs):
        return []
    found, expected = (torch.cat([part.flatten() for part in parts]) for parts in (found, expected))
    if expected.equal(expected.round()) or not found.isfinite().all():
        return []
    factor = ((found @ expected) / (expected @ expected)).item()
    times = round(max(factor, 1 / factor)) if factor > 0 else 0
    exactly = times if factor > 1 else 1 / max(times, 1)
    if times < 2 or not close(found, exactly * expected):
        return []
    if factor > 1:
        return [f"That is {times} times too much: is a division missing, or something in it more than once?"]
    return [f"That is {times} times too little: is it divided once too often, or by the wrong number?"]


def close(found: object, expected: object, tolerance: float = 1e-4) -> bool:
    """Whether two values agree: as numbers, element by element, of one shape where there are several.

    Nothing is close to what is infinite, or no number, but the same.
    """
    a, b = numbers(found), numbers(expected)
    if a is None or b is None or a.numel() != b.numel() or (a.numel() > 1 and a.shape != b.shape):
        return False
    if not a.numel():
        return True
    largest = b.abs().max().item()
    apart = tolerance * max(1e-30, largest) if math.isfinite(largest) else 0
    return torch.allclose(a, b, rtol=0, atol=apart, equal_nan=True)


def _first_difference(found: object, expected: object, tolerance: float) -> int:
    """Where to start showing: the first wrong element, of a matrix if it would not be seen otherwise."""
    a, b = numbers(found), numbers(expected)
    if a is None or b is None or a.shape != b.shape or a.dim() == 0:
        return 0
    first = int((~((a - b).abs() <= tolerance * b.abs().max())).flatten().nonzero()[0])
    return first if a.dim() == 1 or first >= SHOWN else 0


def numbers(value: object) -> torch.Tensor | None:
    """A value as a float64 tensor, or None if it is none: so 2, 2.0, tensor(2) and tensor([2.]) are alike."""
    if value is None or isinstance(value, (str, bool)):
        return None
    try:
        return torch.as_tensor(value, dtype=torch.float64).detach()
    except (TypeError, ValueError, RuntimeError):
        return None


def show(value: object, start: int = 0) -> str:
    """A value in a few words, a vector from element `start` on: "2.5", "[1, 2, ... of 12]"."""
    tensor = numbers(value)
    if tensor is None:
        return repr(value) if value is None or isinstance(value, str) else f"{type(value).__name__} {value!r}"
    flat = [f"{x:.5g}" for x in tensor.flatten()[start : start + SHOWN].tolist()]
    if tensor.numel() == 1 and tensor.dim() < 2:
        return flat[0]
    rest = f", ... of {tensor.numel()}" if start + SHOWN < tensor.numel() else ""
    shape = f" of shape {list(tensor.shape)}" if tensor.dim() != 1 else ""
    return f"[{', '.join(flat)}{rest}]{shape}"
