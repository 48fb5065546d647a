"""What ranks hold after each step of a schedule, as the states that `steps` and `animation` draw."""

from collections.abc import Sequence

from labkit.figures.cells import Cell
from labkit.figures.steps import Message, State
from labkit.schedule.chunks import atoms
from labkit.schedule.description import Send, Step
from labkit.schedule.states import Memory


def schedule_states(
    owners: Sequence[Sequence[Memory]],
    values: Sequence[Sequence[Memory]],
    steps: Sequence[Sequence[Step]],
    names: Sequence[str] | None = None,
) -> list[State]:
    """States to draw, one more than there are steps.

    `owners` and `values`: `labkit.schedule.states` of the schedule, without and with tensors of one element
    per chunk; `steps`: the schedule's; `names`: one per step, else its number.
    """
    drawn = []
    for n, (whose, held) in enumerate(zip(owners, values, strict=True)):
        cells = tuple(
            tuple(Cell(float(row[chunk].sum()), tuple(sorted(set(who[chunk])))) for chunk in sorted(who))
            for who, row in zip(whose, held, strict=True)
        )
        name = "start" if n == 0 else f"{n}" if names is None else f"{n}: {names[n - 1]}"
        drawn.append(State(name, cells, _messages(steps, n - 1) if n else ()))
    return drawn


def _messages(steps: Sequence[Sequence[Step]], n: int) -> tuple[Message, ...]:
    return tuple(
        Message(rank, operation.to, chunk)
        for rank, own in enumerate(steps)
        for operation in own[n]
        if isinstance(operation, Send)
        for chunk in atoms(operation.chunk)
        if isinstance(chunk, int)  # a buffer with a name has no column
    )
