"""Lesson 01, Send a tensor from one rank to another: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import (
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch

DIGITS_LOST = "Digits were lost on the way: send and receive in the dtype of `mine`."
MESSAGES_ARE_ENOUGH = Limit("collectives", lambda arguments: 0, "Messages are enough.")


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    """Numbers that 32 bits cannot hold, of another shape and type in a world of 4.

    So many that a message has not left when isend returns, and that send waits for the receiver.
    """
    n = 20_000 + int(torch.randint(1, 2000, (), generator=generator))
    if size == 4:
        return [(torch.randint(2**40, 2**50, (2, n), generator=generator),) for _ in range(size)]
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


ONE_EACH = "One message from each rank."
SHIFT = """\
def shift_right(mine):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    theirs = torch.empty_like(mine)
    request = dist.isend(mine, dst=right)
    dist.recv(theirs, src=left)
    request.wait()
    return theirs
"""
SHIFT_RIGHT = Exercise(
    task="Every rank passes its tensor to the right and returns what comes from the left, in a new tensor: "
    "the caller still needs `mine`. One message from each rank does it, without a collective. This program "
    "is right for small tensors, and for large ones sometimes wrong. **Find the bug and mend it.**",
    stub=edited(SHIFT, "    theirs = torch.empty_like(mine)\n", "", "recv(theirs", "recv(mine", "return theirs",
                "return mine"),
    solution=SHIFT,
    why="Between isend and wait the tensor belongs to the library, which may still be reading it. Here recv "
    "writes into it at the same time, so the right neighbour may get a mixture. The receiver allocates.",
    hints=(
        "Which tensor is sent, and into which one is received? May that be, before wait()?",
        "A tensor of its own for what arrives: torch.empty_like(mine).",
    ),
    given=_tensors,
    judge=like_solution(0),
    limits=(Limit("messages", len, ONE_EACH, least=len, too_little=ONE_EACH), MESSAGES_ARE_ENOUGH),
    sizes=(3, 4),
    wrong=(
        edit("theirs = torch.empty_like(mine)", "theirs = mine",
             says="changes a tensor that isend is still sending, so what arrives depends on chance"),
        edit("torch.empty_like(mine)", "mine", "isend(mine,", "isend(mine.clone(),",
             says="rank 0 changed `mine`, which its caller goes on using"),
        edit("right, left =", "left, right =",
             says="That came from the right. Pass to the right, and receive from the left."),
        edit("return theirs", "return mine", says="That is the rank's own tensor."),
        edit("    request.wait()\n", "", says="never waits for its isend"),
        edit("request = dist.isend", "dist.send", "    request.wait()\n", "", says="deadlock: ", hangs=True),
        edit("isend(mine,", "isend(mine.float(),", "empty_like(mine)", "empty_like(mine.float())",
             "return theirs", "return theirs.to(mine.dtype)", says=DIGITS_LOST),
        edit("isend(mine,", "isend(mine[: len(mine) // 2].clone(),", "recv(theirs,", "recv(theirs[: len(mine) // 2],",
             "empty_like", "zeros_like", says="Only the first half of the tensor has come."),
        edit("(rank + 1) % world_size, (rank - 1) % world_size", "(rank + 1) % 4, (rank - 1) % 4", hangs=True,
             says="in a world of 3, "),
        body("""\
everybody = [torch.empty_like(mine) for _ in range(world_size)]
dist.all_gather(everybody, mine)
return everybody[rank - 1]""", says=MESSAGES_ARE_ENOUGH.why),
        body("""\
passing = mine
for step in range(world_size + 1):
    theirs = torch.empty_like(mine)
    request = dist.isend(passing, dst=(rank + 1) % world_size)
    dist.recv(theirs, src=(rank - 1) % world_size)
    request.wait()
    passing = theirs
return theirs""", says=ONE_EACH),
        body("""\
from labkit.mpi.torch_internals import default_store
default_store().set(f"{world_size}/{rank}", mine.numpy().tobytes())
there = bytearray(default_store().get(f"{world_size}/{(rank - 1) % world_size}"))
return torch.frombuffer(there, dtype=mine.dtype).view_as(mine)""", says=ONE_EACH),
    ),
)  # fmt: skip

TO_THE_PARTNER = "A partner needs one message from each side, and nobody else needs any."
SWAP = Exercise(
    task="Ranks 0 and 1 swap their tensors, and so do ranks 2 and 3. Return what the partner had. No "
    "deadlock, whatever the size of the tensor, one message from each rank, and no collective.",
    stub="""\
def swap(mine):  # of one shape and one dtype on all ranks
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    ...  # your code
""",
    solution="""\
def swap(mine):
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    theirs = torch.empty_like(mine)
    request = dist.isend(mine, dst=partner)
    dist.recv(theirs, src=partner)
    request.wait()
    return theirs
""",
    why="Both partners run the same lines, without a branch: the send does not block, so both reach recv.",
    hints=(
        "Allocate first. Then: both partners run the same lines. Which way out needs no `if`?",
        "isend, recv, wait, each to or from `partner`.",
    ),
    given=_tensors,
    judge=like_solution(0),
    limits=(
        Limit("messages", len, TO_THE_PARTNER, least=len, too_little=TO_THE_PARTNER),
        Limit("collectives", lambda arguments: 0,
              "A collective moves every tensor to every rank: send and recv."),
    ),
    sizes=(2, 4),
    wrong=(
        edit("request = dist.isend", "dist.send", "    request.wait()\n", "", hangs=True,
             says="deadlock: each waits for another\nrank 0 in send to rank 1, line 4: dist.send("),
        edit("dst=partner", "dst=(rank + 1) % world_size", "src=partner", "src=(rank - 1) % world_size",
             says="That is the left neighbour's: go by `partner`."),
        edit("dst=partner", "dst=(rank - 1) % world_size", "src=partner", "src=(rank + 1) % world_size",
             says="That is the right neighbour's: go by `partner`."),
        edit("return theirs", "return mine",
             says="That is the rank's own tensor: what was received is in another one."),
        edit("empty_like", "zeros_like", "recv(theirs", "recv(theirs.clone()",
             says="Nothing has arrived in it: which call fills the tensor that you return?"),
        body("""\
everybody = [torch.empty_like(mine) for _ in range(world_size)]
dist.all_gather(everybody, mine)
return everybody[rank ^ 1]""", says="A collective moves every tensor to every rank: send and recv."),
        edit("    return", "    request = dist.isend(mine, dst=partner)\n    dist.recv(theirs, src=partner)\n"
             "    request.wait()\n    return", says=TO_THE_PARTNER),
        edit("    request.wait()\n", "", says="rank 0 never waits for its isend: call wait() on what it returned"),
        edit("theirs = torch.empty_like(mine)", "theirs = mine", "isend(mine", "isend(mine.clone()",
             says="rank 0 changed `mine`, which its caller goes on using"),
        edit("    dist.recv", "    mine *= 2\n    dist.recv", "wait()\n", "wait()\n    mine //= 2\n",
             says="changes a tensor that isend is still sending, so what arrives depends on chance"),
        edit("torch.empty_like(mine)", "torch.zeros(mine.shape)", says="(float64 into float32)"),
        edit("torch.empty_like(mine)", "torch.empty(len(mine), dtype=mine.dtype)", says="in a world of 4, "),
        edit("rank + 1 if rank % 2 == 0 else rank - 1", "1 - rank", says="in a world of 4,", hangs=True),
        edit("rank + 1 if rank % 2 == 0 else rank - 1", "world_size - 1 - rank",
             says="Partners are ranks 0 and 1, and ranks 2 and 3: go by `partner`."),
        edit("isend(mine,", "isend(mine.float(),", "empty_like(mine)", "empty_like(mine.float())",
             "return theirs", "return theirs.to(mine.dtype)", says=DIGITS_LOST),
        edit("    request = dist.isend(mine, dst=partner)\n    dist.recv(theirs, src=partner)\n    request.wait()\n",
             "    for part, place in zip(mine.chunk(2), theirs.chunk(2)):\n"
             "        request = dist.isend(part, dst=partner)\n        dist.recv(place, src=partner)\n"
             "        request.wait()\n", says=TO_THE_PARTNER),
    ),
)  # fmt: skip


def _links(generator: torch.Generator, size: int) -> Arguments:
    """Shares below and above one half, and sizes that are far from whole numbers."""
    while True:
        share, a, b = torch.rand(3, dtype=torch.float64, generator=generator).tolist()
        share, alpha = 0.05 + 0.9 * share, 1e-6 * 10 ** (2 * a)
        beta = alpha / 10 ** (2 + b)
        if 0.2 < share / (1 - share) * alpha / beta % 1 < 0.8:
            return [(share, alpha, beta)] * size


NO_MESSAGE = "Every rank knows all three numbers: a formula needs no message."
FORMULA = "share / (1 - share) * alpha / beta"
MESSAGE_SIZE = Exercise(
    task="A message of $n$ bytes moves at $n/T(n)$ bytes per second. How large must it be to reach a given "
    "share of the bandwidth $1/\\beta$? Return $n$, not rounded. No communication.",
    stub="""\
def message_size(share, alpha, beta):  # share: 0.9 for 90 %
    ...  # your code
""",
    solution=f"""\
def message_size(share, alpha, beta):
    return {FORMULA}
""",
    why="n / T(n) = share / beta, so n beta = share (alpha + n beta): nine alpha / beta for 90 %.",
    hints=(
        "T(n) = alpha + n beta. Set n / T(n) to share / beta.",
        "Multiply both sides by what stands below, and solve for n.",
    ),
    given=_links,
    judge=like_solution(1e-5),
    limits=(
        Limit("messages", lambda arguments: 0, NO_MESSAGE), Limit("collectives", lambda arguments: 0, NO_MESSAGE)
    ),
    sizes=(4,),
    wrong=(
        edit(FORMULA, "9 * alpha / beta", says="That is right for 90 % alone: `share` says how much."),
        edit(FORMULA, "alpha / beta",
             says="That is the size at which both parts are equal: half of the bandwidth."),
        edit("alpha / beta", "beta / alpha", says="Upside down: a higher latency needs a larger message."),
        edit("share / (1 - share)", "(1 - share) / share",
             says="Upside down: a larger share needs a larger message."),
        edit("share / (1 - share)", "share", says="n stands on both sides: T(n) grows with n, too."),
        edit("(1 - share)", "(100 - share)", says="`share` is a fraction of 1: 0.9 stands for 90 %."),
        edit(FORMULA, f"round({FORMULA})", says="That is rounded: return the fraction, too."),
        edit("share / (1 - share)", "1 / (1 - share)",
             says="That is T(n) / beta, with the latency in it: take alpha / beta from it."),
        body("return 1e6", says="That is a number of yours: it must follow from share, alpha and beta."),
        body(f"n = torch.tensor({FORMULA}, dtype=torch.float64)\ndist.broadcast(n, src=0)\nreturn n", says=NO_MESSAGE),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="01",
    title="Send a tensor from one rank to another",
    predictions=(Prediction("million", "times as long"),),
    exercises=(SHIFT_RIGHT, SWAP, MESSAGE_SIZE),
    questions=questions("01"),
)
