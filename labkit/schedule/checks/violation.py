"""One thing that is wrong with a schedule."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """`str` gives its sentence, which names the ranks and the step."""

    kind: str  # "deadlock", "lost message", "wrong chunk", "too many bytes", ...
    ranks: tuple[int, ...]
    step: int
    sentence: str

    def __str__(self) -> str:
        return self.sentence
