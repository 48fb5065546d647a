"""Experts whose answers come back in another order than the tokens: the find-the-bug of lesson 20."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

WIDTH = 3


class Expert:
    """One rank's expert: rows times a matrix of its own."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self.matrix = matrix

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.matrix).tanh()


def _tells(choice: torch.Tensor) -> bool:
    """Whether the order of the experts is neither that of the tokens nor its own inverse."""
    order = choice.argsort(stable=True)
    there = torch.arange(len(choice))
    return not torch.equal(order, there) and not torch.equal(order[order], there)


def _tokens(generator: torch.Generator, size: int) -> Arguments:
    """Per rank some tokens, not as many as elsewhere, the expert of each, and the rank's own expert."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    given: Arguments = []
    while len(given) < size:
        n = 12 + int(torch.randint(9, (), generator=generator))
        choice = torch.randint(size, (n,), generator=generator)
        if _tells(choice):
            given.append((draw(n, WIDTH), choice, Expert(draw(WIDTH, WIDTH))))
    return given


def _answers(arguments: Arguments) -> list[torch.Tensor]:
    """Per rank what each token's expert makes of it."""
    experts = [expert for _, _, expert in arguments]
    return [
        torch.stack([experts[e](token) for token, e in zip(x, choice.tolist(), strict=True)])
        for x, choice, _ in arguments
    ]


def _orders(arguments: Arguments) -> list[torch.Tensor]:
    return [choice.argsort(stable=True) for _, choice, _ in arguments]


def _reordered(times: int) -> Any:
    """The right answers, put in the order of the experts so many times."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        found = _answers(arguments)
        for _ in range(times):
            found = [answers[order] for answers, order in zip(found, _orders(arguments), strict=True)]
        return found

    return values


SEND_TO_EXPERTS = Exercise(
    task="Rank $r$ has expert $r$. `choice` says which expert each of the rank's tokens goes to; the "
    "function shall return, token by token, what its expert made of it. It runs without an error, the "
    "shape is right, and tokens get each other's answers. **Find the bug and mend it.**",
    stub="""\
def my_send_to_experts(x, choice, expert):  # tokens, the expert of each, our own
    order = choice.argsort(stable=True)
    sent = choice.bincount(minlength=dist.get_world_size())
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    there, back = received.tolist(), sent.tolist()
    mine = x.new_empty(sum(there), x.shape[1])
    dist.all_to_all_single(mine, x[order], there, back)
    answers = torch.empty_like(x)
    dist.all_to_all_single(answers, expert(mine), back, there)
    return answers
""",
    solution="""\
def my_send_to_experts(x, choice, expert):
    order = choice.argsort(stable=True)
    sent = choice.bincount(minlength=dist.get_world_size())
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    there, back = received.tolist(), sent.tolist()
    mine = x.new_empty(sum(there), x.shape[1])
    dist.all_to_all_single(mine, x[order], there, back)
    answers = torch.empty_like(x)
    dist.all_to_all_single(answers, expert(mine), back, there)
    out = torch.empty_like(x)
    out[order] = answers
    return out
""",
    why="all_to_all sends contiguous rows, so tokens leave sorted by expert, and answers come back so. "
    "answers[i] belongs to token order[i]: out[order] = answers puts it there. answers[order] would sort a "
    "second time.",
    hints=(
        "In which order do tokens leave? In which order do their answers come back?",
        "answers[i] is the answer to x[order[i]]. Write it to that place of a new tensor.",
    ),
    given=_tokens,
    judge=compare(
        _answers,
        Mistake(
            "The answers are in the order of the experts, in which the tokens left: each belongs to token "
            "order[i].",
            _reordered(1),
        ),
        Mistake(
            "answers[order] sorts a second time. The other way round: out[order] = answers.", _reordered(2)
        ),
        Mistake(
            "Every token was given to the rank's own expert: nothing has travelled.",
            lambda arguments: [expert(x) for x, _, expert in arguments],
        ),
        Mistake(
            "The tokens came back as they went: no expert has seen them.",
            lambda arguments: [x for x, _, _ in arguments],
        ),
        tolerance=1e-10,
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: 3,
            "Three exchanges: how many, there, and back. The order is known on this rank.",
        ),
    ),
    becomes="send_to_experts",
)
