"""A round of gossip that changes what it is sending: the find-the-bug of lesson 10."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

NUMBERS = 20_000
"""In the weights of a gossip: too many for a message to have left when isend returns."""


def _gossip(generator: torch.Generator, size: int) -> Arguments:
    given = []
    for _ in range(size):
        weights = torch.randn(NUMBERS, generator=generator, dtype=torch.float64)
        share = 0.5 + torch.rand(1, generator=generator, dtype=torch.float64)
        given.append(torch.cat([weights, share]))
    shifts = torch.randint(1, size, (size,), generator=generator).tolist()
    to = [(rank + shift) % size for rank, shift in enumerate(shifts)]
    return [(mine, to) for mine in given]


def _mixed(keep: float = 0.5, give: float = 0.5, mean: bool = False) -> Values:
    """What each rank has, if it keeps and gives these parts of its share."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        to, held = arguments[0][1], [mine for mine, _ in arguments]
        found = []
        for rank, mine in enumerate(held):
            came = [(keep * mine[-1], mine[:-1])]
            came += [(give * held[r][-1], held[r][:-1]) for r, other in enumerate(to) if other == rank]
            share = sum(s for s, _ in came)
            weights = sum((w if mean else s * w) for s, w in came) / (len(came) if mean else share)
            found.append(torch.cat([weights, share.reshape(1)]))
        return found

    return values


GOSSIP_ROUND = Exercise(
    task="One round of gossip. `mine` is a vector of weights with the rank's share behind them. Rank `r` "
    "gives half of its share, with its weights, to rank `to[r]`; some ranks get several messages, others "
    "none. Each returns what it has after it has mixed in all that came to it. Now and then a rank gets "
    "numbers that nobody has sent. **Find the bug and mend it.**",
    stub="""\
def gossip_round(mine, to):
    mine, message = mine.clone(), torch.empty_like(mine)
    mine[-1] /= 2
    sending = dist.isend(mine, to[rank])
    for _ in range(to.count(rank)):  # so many messages come
        dist.recv(message)
        mix(mine, message)
    sending.wait()
    return mine
""",
    solution="""\
def gossip_round(mine, to):
    mine, message = mine.clone(), torch.empty_like(mine)
    mine[-1] /= 2
    sending = dist.isend(mine.clone(), to[rank])
    for _ in range(to.count(rank)):
        dist.recv(message)
        mix(mine, message)
    sending.wait()
    return mine
""",
    why="What is sent must not change while it is under way, and mix changes `mine`. With a copy of its own "
    "the message is safe; a small one would often have left before, so the bug sleeps until a model grows.",
    hints=(
        "To whom does a tensor belong between isend and wait (lesson 01)?",
        "mix writes into `mine`, which may still be on its way. What is sent must be a tensor of its own.",
    ),
    given=_gossip,
    uses=("mix",),
    judge=compare(
        _mixed(),
        Mistake(
            "The share that was given away was kept, too: there is more than R of it now.", _mixed(1.0, 0.5)
        ),
        Mistake("Nobody halved: halve the share before it is sent.", _mixed(1.0, 1.0)),
        Mistake(
            "Weights count by their share: this is their plain mean. mix does it right.", _mixed(mean=True)
        ),
        Mistake("The rank's own share was halved, but nothing that came was mixed in.", _mixed(0.5, 0.0)),
        Mistake("This is what the rank had before.", lambda arguments: [mine for mine, _ in arguments]),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Gossip is messages between two."),
        Limit(
            "messages",
            lambda arguments: len(arguments),
            "Each rank sends one message.",
            least=lambda arguments: len(arguments),
            too_little="Each rank sends one message.",
        ),
    ),
)
