"""Lesson 06, All-reduce in a ring: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.demands import sends_to_the_right
from labkit.exercises.describe import (
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    algorithm,
    body,
    edit,
    edited,
    in_place,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch

SINGLE = "That is rounded to float32 on the way: send the numbers as they are."
NO_COLLECTIVE = Limit("collectives", lambda arguments: 0, "A collective is what you write: use messages.")
TO_THE_RIGHT = sends_to_the_right("In this ring every rank sends to the right and receives from the left.")


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    """Never divisible by the ranks; of three ranks' chunks one is shorter than half a tensor can be cut."""
    if size == 3:
        return [(torch.randint(-99, 99, (4,), generator=generator),) for _ in range(size)]
    n = 2 * size * int(torch.randint(3_000, 9_000, (), generator=generator)) + 1
    shape, dtype = ((7, n), torch.float32) if size == 2 else ((n,), torch.float64)
    return [(torch.randn(shape, dtype=dtype, generator=generator),) for _ in range(size)]


def _bytes(arguments: Arguments) -> int:
    """Twice the tensor, without the shortest chunk each time."""
    x, size = arguments[0][0], len(arguments)
    return 2 * x.element_size() * (x.numel() - x.numel() // size)


def _second_half(number: str) -> tuple[str, ...]:
    """A ring whose second half is a loop of its own: in `step` it sends the chunk of that number."""
    came = number.replace("rank", "left")
    loop = f"""
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[({came}) % world_size])
        sending = dist.isend(chunks[({number}) % world_size], right)
        dist.recv(received, left)
        sending.wait()
        chunks[({came}) % world_size].copy_(received)
"""
    return (
        "2 * (world_size - 1)",
        "world_size - 1",
        "            own.copy_(received)\n",
        f"            pass{loop}",
    )


NO_SUM_YET = (
    "Either the first half replaces, where it should add, or the second half begins with a chunk that is no "
    "whole sum yet: after the first half rank r has the whole sum of chunk r + 1."
)
TOO_SHORT = (
    "One chunk of each rank is whole, and not all the others: the second half, which hands the whole sums on, "
    "is missing or too short."
)
A_CHUNK_A_STEP = "A rank sends one chunk in each step, not the whole tensor."
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
    solution=algorithm("ring.all_reduce_ring", "my_all_reduce_ring"),
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
    judge=like_solution(1e-12),
    limits=(
        NO_COLLECTIVE,
        Limit("bytes", _bytes, A_CHUNK_A_STEP),
        Limit(
            "steps",
            lambda arguments: 2 * (len(arguments) - 1),
            "In a step all ranks send at the same time: isend to the right, recv from the left, then wait.",
        ),
    ),
    demands=(TO_THE_RIGHT,),
    wrong=(
        edit("x.view(-1)", "x.clone().view(-1)",
             says="x is as it was. Work in place: what is written into a chunk is in x."),
        edit("chunks =", "x /= world_size\n    chunks =", says="This is the mean: an all-reduce only adds."),
        edit("2 * (world_size - 1)", "world_size - 1", says=TOO_SHORT),
        edit("2 * (world_size - 1)", "2 * (world_size - 1) - 1",
             says="The last step is missing: one chunk of each rank is no whole sum yet."),
        edit("step < world_size - 1", "True",
             says="You add in the second half, too. What comes then is a whole sum: it replaces what is there."),
        edit("step < world_size - 1", "False", says=NO_SUM_YET),
        edit("for step in", "for turn in", "        own = ", "        step = turn % (world_size - 1)\n        own = ",
             "if step <", "if turn <", says=NO_SUM_YET),
        edit(*_second_half("rank - step"), says=NO_SUM_YET),
        edit(*_second_half("rank + step"), says=NO_SUM_YET),
        edit(*_second_half("rank + 1 + step"),
             says="The second half begins with the right chunk, and then takes the others in the wrong "
             "direction. Hand on the chunk that has just come."),
        edit("chunks =", "mine = x.clone()\n    chunks =", "own.copy_(received)\n",
             "own.copy_(received)\n    x += mine\n", says="The rank's own tensor counts twice."),
        edit("[(rank - step) % world_size]", "[rank]", "[(rank - step - 1) % world_size]", "[left]",
             says="Every step sends the rank's own chunk. Hand on the chunk that has just come."),
        edit("(received, left)", "(received, right)", says="deadlock", hangs=True),
        edit("torch.empty_like(own)", "torch.empty_like(chunks[0])", says="in a world of 2, "),
        edit("tensor_split", "chunk", says="IndexError: tuple index out of range"),
        edit("torch.empty_like(own)", "torch.empty(own.shape, dtype=torch.float64)", says="in a world of 2, "),
        edit("sending = dist.isend", "dist.send", "        sending.wait()\n", "", hangs=True,
             says="in a world of 2, deadlock: each waits for another\nrank 0 in send to rank 1"),
        body("""\
mine, y = x.clone(), torch.empty_like(x)
for step in range(2 * (dist.get_world_size() - 1)):
    sending = dist.isend(mine, (rank + 1) % world_size)
    dist.recv(y, (rank - 1) % world_size)
    sending.wait()
    mine = y.clone()
    if step < world_size - 1:
        x += y""", says=A_CHUNK_A_STEP),
        body("""\
y = torch.empty_like(x)
if rank > 0:
    dist.send(x, 0)
    dist.recv(x, 0)
else:
    for r in range(1, world_size):
        dist.recv(y, r)
        x += y
    for r in range(1, world_size):
        dist.send(x, r)""", says=A_CHUNK_A_STEP),
        body("dist.all_reduce(x)", says=NO_COLLECTIVE.why),
        body("from labkit.algorithms import all_reduce_ring\nall_reduce_ring(x)",
             says="that is what you shall write"),
        edit("torch.empty_like(own)", "torch.empty(own.shape)", "chunks[(rank - step) % world_size]",
             "chunks[(rank - step) % world_size].float()", "own += received", "own += received.to(own.dtype)", says=SINGLE),
        edit("left, right =", "right, left =", "(rank - step - 1)", "(rank + step + 1)",
             "(rank - step)", "(rank + step)", says="every rank sends to the right and receives from the left"),
        edit("chunks = x", "whole = x.double()\n    chunks = x", "own += received", "own.copy_((own + received).half())",
             says="wrong"),
    ),
    becomes="all_reduce_ring",
)  # fmt: skip


def _parts(generator: torch.Generator, size: int) -> Arguments:
    n = int(torch.randint(2, 50, (), generator=generator))
    return [(torch.randn(n, 3, dtype=torch.float64, generator=generator),) for _ in range(size)]


GATHER = """\
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
"""
FROM_THE_LEFT = (
    "Each rank has its left neighbour's tensor in all places but its own: whatever came from further away was "
    "not handed on."
)
ALL_GATHER_RING = Exercise(
    task="The second half alone: an all-gather in a ring. It should return the tensors of all ranks, in the "
    "order of the ranks. With two ranks it does. With four it runs without an error, and the result is "
    "wrong. **Find the bug and mend it.** Budget: $R-1$ messages from each rank, and no collective.",
    stub=edited(GATHER, "(mine):", "(mine):  # of the same shape on all ranks",
                "isend(parts[(rank - step) % world_size]", "isend(mine"),
    solution=GATHER,
    why="A rank sent its own tensor in every step, so its right neighbour got that R - 1 times. It must hand "
    "on what it has just received: in step s the tensor of rank r - s. With two ranks there is only one "
    "step, and nothing to hand on: test with more ranks than two.",
    hints=(
        "Run it on your four ranks with mine = torch.tensor([float(rank)]). Whose numbers does rank 2 get?",
        "Everything comes from the left neighbour. How can the tensor of rank 0 get to rank 2?",
    ),
    given=_parts,
    judge=like_solution(0),
    limits=(
        NO_COLLECTIVE,
        Limit("messages", lambda arguments: len(arguments) * (len(arguments) - 1),
              "R - 1 from each rank are enough: one in each step."),
        Limit("bytes", lambda arguments: (len(arguments) - 1) * arguments[0][0].nbytes,
              "One tensor in each step is enough."),
    ),
    wrong=(
        edit("isend(parts[(rank - step) % world_size]", "isend(1 * mine", says=FROM_THE_LEFT),
        body("""\
parts = [mine.clone() for _ in range(world_size)]
for step in range(1, world_size):
    y = mine.clone()
    s = dist.isend(mine, (rank + 1) % world_size)
    dist.recv(y, (rank - 1) % world_size)
    s.wait()
    parts[rank - step] = y
return torch.stack(parts)""", says=FROM_THE_LEFT),
        edit("stack(parts)", "stack([parts[(rank - s) % world_size] for s in range(world_size)])",
             says="These are the right tensors in the order in which they came. Put that of rank p in place p."),
        edit("in range(world_size - 1)", "in range(world_size - 2)", says="in a world of 2, ranks 0-1 are wrong"),
        body("return torch.stack([mine] * world_size)", says="Every place has the rank's own tensor."),
        edit("isend(parts[(rank - step)", "isend(parts[(rank + step)", says="in a world of 3, ranks 0-2 are wrong"),
        edit("sending = dist.isend", "dist.send", "        sending.wait()\n", "", hangs=True,
             says="in a world of 2, deadlock: each waits for another"),
        body("parts = [torch.empty_like(mine) for _ in range(world_size)]\ndist.all_gather(parts, mine)\n"
             "return torch.stack(parts)", says=NO_COLLECTIVE.why),
        edit("isend(parts[(rank - step) % world_size]", "isend(torch.stack(parts)",
             "empty_like(mine)", "empty(world_size, *mine.shape, dtype=mine.dtype)",
             "= received", "= received[(rank - step - 1) % world_size].clone()",
             says="One tensor in each step is enough."),
        edit("isend(parts[(rank - step) % world_size]", "isend(parts[(rank - step) % world_size].float()",
             "empty_like(mine)", "empty(mine.shape)", "stack(parts)", "stack([part.double() for part in parts])", says=SINGLE),
    ),
)  # fmt: skip


def _divisible(generator: torch.Generator, size: int) -> Arguments:
    """Tensors that 2, 3 or 4 ranks cut into equal chunks."""
    n = 12 * int(torch.randint(1, 50, (), generator=generator))
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


AT_THE_SAME_TIME = "In a step all ranks send at the same time: isend to the right, recv from the left."
REDUCE_SCATTER = Exercise(
    task="The first half alone. Return the sum of chunk number `rank` over all ranks. In the ring "
    "above, rank $r$ ends the first half with the sum of chunk $r + 1$. Budget: $R - 1$ steps, $(R - 1)/R$ "
    "of `x` sent per rank. Leave `x` as it is.",
    stub="""\
def reduce_scatter(x):  # its length can be divided by world_size
    ...  # your code, with isend and recv
""",
    solution="""\
def reduce_scatter(x):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    chunks = x.clone().chunk(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[0])
        sending = dist.isend(chunks[(rank - step - 1) % world_size], right)
        dist.recv(received, left)
        sending.wait()
        chunks[(rank - step - 2) % world_size].add_(received)
    return chunks[rank]
""",
    why="Every rank begins one chunk earlier than in the lesson, so every sum ends one rank later. ZeRO and "
    "FSDP reduce gradients with this collective.",
    hints=(
        "Take the ring of the lesson, and stop after R - 1 steps. Which chunk is whole then?",
        "In step s rank r sends chunk (r - s - 1) mod R to the right. So from the left it gets chunk "
        "(r - s - 2) mod R, which it adds.",
    ),
    given=_divisible,
    uses=("all_reduce_ring",),
    judge=like_solution(1e-12),
    limits=(
        NO_COLLECTIVE,
        Limit(
            "bytes",
            lambda arguments: arguments[0][0].nbytes * (len(arguments) - 1) // len(arguments),
            "A chunk is a part in R, and a rank sends R - 1 of them. The second half of the ring sends more.",
        ),
        Limit("steps", lambda arguments: len(arguments) - 1, AT_THE_SAME_TIME),
    ),
    wrong=(
        edit("(rank - step - 1)", "(rank - step)", "(rank - step - 2)", "(rank - step - 1)",
             "chunks[rank]\n", "chunks[(rank + 1) % world_size]\n",
             says="This is the sum of the chunk after the rank's own, as in the ring of the lesson. Let every "
             "rank begin one chunk earlier."),
        edit("(rank - step - 1)", "(rank - step)", "(rank - step - 2)", "(rank - step - 1)",
             says="This is the rank's own chunk: no other rank's numbers are in it. Which chunk was added to?"),
        body("x = x.clone()\nall_reduce_ring(x)\nreturn x",
             says="This is the sum of the whole tensor. Return chunk `rank` of it."),
        edit("return chunks[rank]", "return chunks[rank] / world_size",
             says="This is the mean: reduce-scatter only adds."),
        edit("return chunks[rank]", "return chunks[rank] + x.chunk(world_size)[rank]",
             says="The rank's own chunk is in it twice."),
        edit("in range(world_size - 1)", "in range(max(1, world_size - 2))",
             says="in a world of 3, ranks 0-2 are wrong"),
        edit("(received, left)", "(received, right)", hangs=True,
             says="in a world of 3, deadlock: each waits for another\n"),
        edit("sending = dist.isend", "dist.send", "        sending.wait()\n", "", hangs=True,
             says="in a world of 2, deadlock: each waits for another\nrank 0 in send to rank 1"),
        edit("return chunks[rank]", "return chunks[0]", says="in a world of 2, rank 1 is wrong"),
        body("x = x.clone()\nall_reduce_ring(x)\nreturn x.chunk(world_size)[rank]",
             says="The second half of the ring sends more."),
        body("x = x.clone()\ndist.all_reduce(x)\nreturn x.chunk(world_size)[rank]", says=NO_COLLECTIVE.why),
        body("""\
parts, y = x.clone().chunk(world_size), torch.empty_like(x[: len(x) // world_size])
for root in range(world_size):
    for sender in range(world_size):
        if rank == sender != root:
            dist.send(parts[root], root)
        elif rank == root != sender:
            dist.recv(y, sender)
            parts[root].add_(y)
return parts[rank]""", says=AT_THE_SAME_TIME),
        edit("return chunks[rank]", "return chunks[rank].float()", says="float64 was asked for"),
        edit("isend(chunks[(rank - step - 1) % world_size]", "isend(chunks[(rank - step - 1) % world_size].float()",
             "empty_like(chunks[0])", "empty(len(chunks[0]))", says=SINGLE),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="06",
    title="All-reduce in a ring",
    predictions=(Prediction("ring_speed_up", "times as fast"),),
    exercises=(ALL_REDUCE_RING, ALL_GATHER_RING, REDUCE_SCATTER),
    questions=questions("06"),
)
