"""An all-reduce in a ring, and an all-gather with a bug: the heart of lesson 06 and what it breaks."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit, in_place
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    """Never divisible by the ranks; of three ranks' chunks one is shorter than half a tensor can be cut."""
    if size == 3:
        return [(torch.randint(-99, 99, (4,), generator=generator),) for _ in range(size)]
    n = 2 * size * int(torch.randint(3_000, 9_000, (), generator=generator)) + 1
    shape, dtype = ((7, n), torch.float32) if size == 2 else ((n,), torch.float64)
    return [(torch.randn(shape, dtype=dtype, generator=generator),) for _ in range(size)]


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(x for (x,) in arguments)


def _after(steps: int, adding: int, arguments: Arguments) -> list[torch.Tensor]:
    """What the ranks hold after so many steps of the ring, of which the first `adding` ones add."""
    held = [x.clone() for (x,) in arguments]
    for step in range(steps):
        _step(held, -step, step < adding)
    return held


def _step(held: list[torch.Tensor], number: int, add: bool) -> None:
    """Every rank sends to the right the chunk that has its own number plus `number`."""
    size = len(held)
    chunks = [x.view(-1).tensor_split(size) for x in held]
    sent = [chunks[rank][(rank + number) % size].clone() for rank in range(size)]
    for rank in range(size):
        chunk = chunks[rank][(rank - 1 + number) % size]
        chunk.copy_(sent[rank - 1] + chunk if add else sent[rank - 1])


def _upwards(arguments: Arguments) -> list[torch.Tensor]:
    """After a right first half, the second begins with the right chunk and goes on to the one after it."""
    steps = len(arguments) - 1
    held = _after(steps, steps, arguments)
    for step in range(steps):
        _step(held, 1 + step, add=False)
    return held


def _bytes(arguments: Arguments) -> int:
    """Twice the tensor, without the shortest chunk each time."""
    x, size = arguments[0][0], len(arguments)
    return 2 * x.element_size() * (x.numel() - x.numel() // size)


ALL_REDUCE_RING = Exercise(
    task="Sum `x` over all ranks, in place, in a ring: $2(R-1)$ steps, in each of which every rank sends one "
    "chunk to the right and receives one from the left. The length of `x` need not be divisible by $R$, so "
    "chunks differ in length. No collective.",
    stub="""\
def my_all_reduce_ring(x):  # contiguous, of the same shape on all ranks
    rank, world_size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    chunks = x.view(-1).tensor_split(world_size)
    ...  # your code, with isend and recv
""",
    solution="""\
def my_all_reduce_ring(x):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    chunks = x.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        own = chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(own)
        sending = dist.isend(chunks[(rank - step) % world_size], right)
        dist.recv(received, left)
        sending.wait()
        if step < world_size - 1:
            own += received
        else:
            own.copy_(received)
""",
    why="In step s rank r sends chunk r - s, and its left neighbour sends chunk (r - 1) - s, so that is the "
    "one that comes: the chunk which r sends in the next step. The same rule holds for both halves; only "
    "what is done with what comes differs.",
    hints=(
        "In step 0 rank r sends chunk r, and adds what comes to chunk r - 1. Which chunk does it send in "
        "step 1? The one that it has just added to.",
        "So in step s it sends chunk (r - s) mod R, and what comes is chunk (r - s - 1) mod R. Allocate "
        "`received` like that chunk: it may have another length than the one that you send.",
        "From step R - 1 on what comes is a whole sum: .copy_(received) in place of += received.",
    ),
    given=_tensors,
    answer=in_place,
    judge=compare(
        everywhere(_sum),
        Mistake(
            "x is as it was. Work in place: what is written into a chunk is in x.",
            lambda arguments: [x for (x,) in arguments],
        ),
        Mistake("This is the mean: an all-reduce only adds.", everywhere(lambda a: _sum(a) / len(a))),
        Mistake(
            "One chunk of each rank is whole, and not all the others: the second half, which hands the whole "
            "sums on, is missing or too short.",
            lambda a: _after(len(a) - 1, len(a) - 1, a),
        ),
        Mistake(
            "You add in the second half, too. What comes then is a whole sum: it replaces what is there.",
            lambda a: _after(2 * (len(a) - 1), 2 * (len(a) - 1), a),
        ),
        Mistake(
            "Either the first half replaces, where it should add, or the second half begins with a chunk "
            "that is no whole sum yet: after the first half rank r has the whole sum of chunk r + 1.",
            lambda a: _after(2 * (len(a) - 1), 0, a),
        ),
        Mistake(
            "The second half begins with the right chunk, and then takes the others in the wrong direction. "
            "Hand on the chunk that has just come.",
            _upwards,
        ),
        Mistake("The rank's own tensor counts twice.", lambda a: [_sum(a) + x for (x,) in a]),
        Mistake(
            "The last step is missing: one chunk of each rank is no whole sum yet.",
            lambda a: _after(2 * (len(a) - 1) - 1, len(a) - 1, a),
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "The collective is what you build here: use messages."),
        Limit("bytes", _bytes, "A rank sends one chunk in each step, not the whole tensor."),
        Limit(
            "steps",
            lambda arguments: 2 * (len(arguments) - 1),
            "In a step all ranks send at the same time: isend to the right, recv from the left, then wait.",
        ),
    ),
    becomes="all_reduce_ring",
)


def _parts(generator: torch.Generator, size: int) -> Arguments:
    n = int(torch.randint(2, 50, (), generator=generator))
    return [(torch.randn(n, 3, dtype=torch.float64, generator=generator),) for _ in range(size)]


def _from_the_left(arguments: Arguments) -> list[torch.Tensor]:
    """Every rank has its left neighbour's tensor in each place but its own."""
    size = len(arguments)
    return [torch.stack([arguments[r if p == r else r - 1][0] for p in range(size)]) for r in range(size)]


ALL_GATHER_RING = Exercise(
    task="The second half alone: an all-gather in a ring. It should return the tensors of all ranks, in the "
    "order of the ranks. With two ranks it does. With four it runs without an error, and the result is "
    "wrong. **Find the bug and mend it.** Budget: $R-1$ messages from each rank, and no collective.",
    stub="""\
def all_gather_ring(mine):  # of the same shape on all ranks
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    parts = [mine for _ in range(world_size)]
    for step in range(world_size - 1):
        received = torch.empty_like(mine)
        sending = dist.isend(mine, right)
        dist.recv(received, left)
        sending.wait()
        parts[(rank - step - 1) % world_size] = received
    return torch.stack(parts)
""",
    solution="""\
def all_gather_ring(mine):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    parts = [mine for _ in range(world_size)]
    for step in range(world_size - 1):
        received = torch.empty_like(mine)
        sending = dist.isend(parts[(rank - step) % world_size], right)
        dist.recv(received, left)
        sending.wait()
        parts[(rank - step - 1) % world_size] = received
    return torch.stack(parts)
""",
    why="A rank sent its own tensor in every step, so its right neighbour got that R - 1 times. It must hand "
    "on what it has just received: in step s the tensor of rank r - s. With two ranks there is only one "
    "step, and nothing to hand on: test with more ranks than two.",
    hints=(
        "Run it on your four ranks with mine = torch.tensor([float(rank)]). Whose numbers does rank 2 get?",
        "Everything comes from the left neighbour. How can the tensor of rank 0 get to rank 2?",
    ),
    given=_parts,
    judge=compare(
        everywhere(lambda arguments: torch.stack([mine for (mine,) in arguments])),
        Mistake(
            "Each rank has its left neighbour's tensor in all places but its own: whatever came from further "
            "away was not handed on.",
            _from_the_left,
        ),
        Mistake(
            "These are the right tensors in the order in which they came. Put that of rank p in place p.",
            lambda arguments: [
                torch.stack([arguments[r - s][0] for s in range(len(arguments))])
                for r in range(len(arguments))
            ],
        ),
        Mistake(
            "Every place has the rank's own tensor.",
            lambda arguments: [torch.stack([mine] * len(arguments)) for (mine,) in arguments],
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "The collective is what you mend here: use messages."),
        Limit(
            "messages",
            lambda arguments: len(arguments) * (len(arguments) - 1),
            "R - 1 from each rank are enough: one in each step.",
        ),
        Limit(
            "bytes",
            lambda arguments: (len(arguments) - 1) * arguments[0][0].nbytes,
            "One tensor in each step is enough.",
        ),
    ),
)
