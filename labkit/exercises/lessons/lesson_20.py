"""Lesson 20, Long sequences and many experts: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from labkit.exercises.demands import sends_to_the_right
from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    algorithm,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import normal

HEADS, SIZE = 2, 8


def _two_parts(generator: torch.Generator, size: int) -> Arguments:
    """Per rank what two sets of keys gave: outputs, and logarithms that are nowhere close to each other.

    Their exponentials are infinite, or all 0. Some query has no key in the first set, and another in the second.
    """
    n = int(torch.randint(3, 9, (), generator=generator))
    sign = 2 * int(torch.randint(2, (), generator=generator)) - 1
    given = []
    for _ in range(size):
        apart = (1 + normal(generator, HEADS, n).abs()) * (-1) ** torch.arange(n)
        log = sign * (800 + 1000 * torch.rand((), generator=generator)) + normal(generator, HEADS, n)
        other = log + apart
        log[0, 0] = other[1, 0] = -torch.inf
        given.append((normal(generator, HEADS, n, SIZE), log, normal(generator, HEADS, n, SIZE), other))
    return given


def _together(arguments: tuple, result: Any) -> Any:
    """Output and logarithm as one tensor; words for what is no number, so that such answers are alike."""
    both = isinstance(result, (tuple, list)) and len(result) == 2 and all(map(torch.is_tensor, result))
    if not both or [part.shape for part in result] != [part.shape for part in arguments[:2]]:
        return result
    whole = torch.cat([result[0], result[1][..., None]], -1)
    return "what is no number" if whole.isnan().any() else whole.nan_to_num(neginf=-1e4, posinf=1e4)


BOTH_ARE_HERE = "Both parts are here: no other rank is needed."
INFINITE = (
    "exp(1000) is beyond float64, and exp(-1000) is 0: take exp of differences that are never above 0, and "
    "torch.logaddexp."
)
OUTPUT = "return share[..., None] * out + other_share[..., None] * other_out"
MERGE = Exercise(
    task="`out` is the attention of some queries to some keys, and `log` the logarithm of the sum of their "
    "weights, $\\ln Z$; `other_out` and `other_log` are the same for other keys. Return both for all these "
    "keys together: `(output, logarithm)`, without communication. `out` has one dimension more than `log`, "
    "at the end. The sums themselves are beyond float64. A query that has no keys in one of the two parts has "
    "the logarithm $-\\infty$ there.",
    stub="""\
def my_merge(out, log, other_out, other_log):
    ...  # your code
""",
    solution=algorithm("ring_attention.merge", "my_merge"),
    why="Each output was divided by its own sum of weights, so it counts in proportion to that sum: "
    "exp(log - both). The differences are never above 0, so no exponential is too large.",
    hints=(
        "What was divided by Z_A is to be divided by Z_A + Z_B: multiply by Z_A / (Z_A + Z_B). What is that, "
        "written with logarithms?",
        "both = torch.logaddexp(log, other_log) is ln(Z_A + Z_B). The share of the first is "
        "(log - both).exp(), and [..., None] makes it fit the output.",
    ),
    given=_two_parts,
    answer=_together,
    judge=like_solution(1e-13),
    limits=(
        Limit("collectives", lambda arguments: 0, BOTH_ARE_HERE),
        Limit("messages", lambda arguments: 0, BOTH_ARE_HERE),
    ),
    wrong=(
        edit(OUTPUT, "return (out + other_out) / 2",
             says="You took the mean of both. Who has more weight counts more: the shares are exp(log - both)."),
        edit("other_out, both", "other_out, log",
             says="The output is right, and the logarithm is still that of the first part: the next merge would "
             "give this one too little."),
        edit("other_out, both", "other_out, torch.maximum(log, other_log)",
             says="The output is right. The logarithm of a sum is not the larger one: torch.logaddexp."),
        edit("share, other_share =", "other_share, share =",
             says="The shares are swapped: who has more weight got less."),
        edit("other_out, both", "other_out",
             says="That is the output alone. Return the logarithm, too: the next merge needs it."),
        edit(OUTPUT, "return torch.where((log > other_log)[..., None], out, other_out)",
             says="Only the part with more weight is in it. The other one counts as well, by its share."),
        body("a, b = log.exp()[..., None], other_log.exp()[..., None]\n"
             "return (a * out + b * other_out) / (a + b), (log.exp() + other_log.exp()).log()", says=INFINITE),
        edit("torch.logaddexp(log, other_log)", "log + (other_log - log).exp().log1p()", says=INFINITE),
        edit("(log, other_log)", "(log.float(), other_log.float()).double()", says="are wrong"),
        edit("share[..., None] * out", "share[..., None] * out.float().double()", says="are wrong"),
        edit("(log, other_log)", "(log, other_log)\n    both = both.round(decimals=6)", says="are wrong"),
        body("from labkit.algorithms.ring_attention import merge as ready\n"
             "return ready(out, log, other_out, other_log)", says="that is what you shall write"),
    ),
    becomes="merge",
)  # fmt: skip


def _sequence(generator: torch.Generator, size: int) -> Arguments:
    """Per rank q, k and v of its tokens, many of them, so that scores need most of the memory."""
    tokens = int(torch.randint(64, 97, (), generator=generator))
    return [tuple(normal(generator, 3, HEADS, tokens, SIZE)) for _ in range(size)]


def _sent(arguments: Arguments) -> int:
    _, k, v = arguments[0]
    return (len(arguments) - 1) * (k.nbytes + v.nbytes)


def _held_at_once(scores: float) -> Callable[[Arguments], float]:
    """So many times the scores of one block; two blocks and one that is sent, and what is smaller.

    Who keeps all blocks has, among four ranks, some bytes more.
    """
    return lambda arguments: (
        8 * HEADS * scores * arguments[0][0].shape[-2] ** 2 + 9.6 * arguments[0][0].nbytes
    )


def _attending(ring: Callable[..., Any], arguments: tuple) -> Any:
    """Call `ring`; note at each `attend` in it how many blocks this rank had begun to send and to receive."""
    from labkit.mpi.record import record

    begun, block = [], arguments[1].nbytes + arguments[2].nbytes
    names = ring.__globals__, vars(import_module("labkit.algorithms.ring_attention"))
    kept = [(there, there["attend"]) for there in names if "attend" in there]

    def noting(attend: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            calls = record.records or []
            begun.append([sum(c.bytes for c in calls if c.verb == verb) / block for verb in ("send", "recv")])
            return attend(*given, **named)

        return noted

    try:
        for there, attend in kept:
            there["attend"] = noting(attend)
        return ring(*arguments), begun
    finally:
        for there, attend in kept:
            there["attend"] = attend


def _output_and_begun(arguments: tuple, result: Any) -> dict[str, Any]:
    return dict(zip(("output", "begun"), result, strict=True))


TWO_BLOCKS = (
    "Hold two blocks at most, the one at hand and the one that comes: the next may come when that is used."
)
SEND_FIRST = "Begin to send a block before you compute with it: it travels meanwhile."
EACH_BLOCK = "Call attend once for each block, and merge what it gives."


def _two_blocks(answers: Answers) -> str:
    """Say which rank had begun to receive more than one block beyond the one it computed with; or ""."""
    for rank, own in enumerate(answers.found):
        for step, (_, came) in enumerate(own["begun"]):
            if came > step + 2:
                return f"rank {rank} has begun to receive {came:g} blocks when it computes for the time {step + 1}\n{TWO_BLOCKS}"
    return ""


def _send_first(answers: Answers) -> str:
    """Say which rank left out a block, or computed with one before it began to send it; or ""."""
    for rank, own in enumerate(answers.found):
        if len(own["begun"]) != answers.size:
            return (
                f"rank {rank} calls attend {len(own['begun'])} times for {answers.size} blocks\n{EACH_BLOCK}"
            )
        for step, (sent, _) in enumerate(own["begun"][:-1], 1):
            if sent < step:
                return f"rank {rank} has begun to send {sent:g} blocks when it computes for the time {step}\n{SEND_FIRST}"
    return ""


NO_COLLECTIVE = Limit("collectives", lambda arguments: 0, "Blocks go round by messages: isend and irecv.")
ONE_BLOCK_A_STEP = Limit("bytes", _sent, "A rank sends one block of keys and values in each of R - 1 steps.")
KEEP_NONE = (
    "That is more than the scores of one block at once: attend to each block as it comes, and keep none."
)
TO_THE_RIGHT = sends_to_the_right("In this ring every rank sends to the right and receives from the left.")
GATHERED = """\
both = torch.stack([k, v])
every = [torch.empty_like(both) for _ in range(world_size)]
dist.all_gather(every, both)
"""
EXCHANGED = """\
left, right = (rank - 1) % world_size, (rank + 1) % world_size
blocks = [torch.stack([k, v])]
for step in range(1, world_size):
    coming = torch.empty_like(blocks[0])
    works = dist.isend(blocks[-1], right), dist.irecv(coming, left)
    for work in works:
        work.wait()
    blocks.append(coming)
"""
COMPUTES = "        out, log = merge(out, log, *attend(q, *block))  # while the next block is on its way\n"
WAITS = "            for work in works:\n                work.wait()\n"
RING_ATTENTION = Exercise(
    task="Each rank has `q`, `k` and `v` of its part of the sequence, all of one shape. Return the attention "
    "of the rank's queries to the keys of **all** ranks. In each of $R-1$ steps send a block of keys and "
    "values to the right and receive one from the left; use `attend`, once for each block, and `merge`, and no "
    "collective. Begin to send a block before you compute with it. Never hold the scores of more than one "
    "block, nor more blocks than the one at hand and the one that comes.",
    stub="""\
def my_ring_attention(q, k, v):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    ...  # your code, with isend and irecv
""",
    solution=algorithm("ring_attention.ring_attention", "my_ring_attention"),
    why="Queries stay, keys and values travel. In step s a rank holds the block of rank r - s, attends to it "
    "while the next one comes, and merges: the scores of one block at a time are all that it ever holds.",
    hints=(
        "In step 0 the block is your own: attend(q, *block). What comes from the left in step 1 is the "
        "left neighbour's; in step 2 that neighbour must send you what it has just received.",
        "Each step: isend(block, right), irecv(coming, left), part = attend(q, *block), merge, wait for "
        "both, block = coming. In the last step nothing is sent.",
    ),
    given=_sequence,
    use=_attending,
    answer=_output_and_begun,
    judge=like_solution(1e-12, part="output"),
    limits=(NO_COLLECTIVE, ONE_BLOCK_A_STEP, Limit("memory", _held_at_once(2), KEEP_NONE)),
    demands=(TO_THE_RIGHT, _two_blocks, _send_first),
    wrong=(
        body("return attend(q, k, v)[0]",
             says="Each rank attends to its own keys alone: nothing has come from the others."),
        edit(COMPUTES, "        out = out + attend(q, *block)[0] / world_size\n",
             says="You took the mean of the blocks' outputs. Each counts by its sum of weights: merge."),
        edit("isend(block, right)", "isend(torch.stack([k, v]), right)",
             says="Each rank saw its left neighbour's block again and again: hand on what you have just received."),
        edit("in range(world_size)", "in range(world_size - 1)",
             says="The last block is missing: R - 1 come, and the first is your own."),
        edit("works = dist.isend(block, right), dist.irecv(coming, left)",
             "works = ()\n            dist.recv(coming, left)\n            dist.send(block, right)",
             says="deadlock: ", hangs=True),
        edit("for work in works:", "for work in works[1:]:", says="never waits for its isend"),
        edit(WAITS, "", says="never waits for its irecv", hangs=True),
        body(GATHERED + "return attend(q, *torch.cat(every, -2))[0]", says=NO_COLLECTIVE.why),
        body(EXCHANGED + "return attend(q, *torch.cat(blocks, -2))[0]", says=KEEP_NONE),
        body(EXCHANGED + "del blocks[0]\nout, log = attend(q, k, v)\nfor block in blocks:\n"
             "    out, log = merge(out, log, *attend(q, *block))\nreturn out", says=TWO_BLOCKS),
        edit("    for step", "    kept = []\n    for step", "            block = coming\n", "            kept.append(block)\n            block = coming\n",
             says=KEEP_NONE),
        edit("        if step < world_size - 1:\n            coming = torch.empty_like(block)\n"
             "            works = dist.isend(block, right), dist.irecv(coming, left)\n", "", COMPUTES, COMPUTES,
             "            for work in works:\n", "            coming = torch.empty_like(block)\n"
             "            works = dist.isend(block, right), dist.irecv(coming, left)\n            for work in works:\n",
             says=SEND_FIRST),
        edit("torch.stack([k, v])", "torch.stack([k, v, q])", "*block))", "*block[:2]))", says=ONE_BLOCK_A_STEP.why),
        edit("left, right =", "right, left =", says="every rank sends to the right and receives from the left"),
        edit("torch.stack([k, v])", "torch.stack([k, v]).float()", "*block)", "*block.double())",
             says="of the largest number"),
        body("from labkit.algorithms.ring_attention import ring_attention as ready\nreturn ready(q, k, v)",
             says="that is what you shall write"),
    ),
    uses=("ring_attention.attend", "ring_attention.merge"),
    becomes="ring_attention",
)  # fmt: skip

AHEAD = "ahead = torch.full((q.shape[-2], q.shape[-2]), -torch.inf).triu(1)\n"
CAUSAL_RING = Exercise(
    task="A language model looks only back: a token attends to itself and to the tokens before it. The "
    "sequence goes on from rank to rank. Return the attention of the rank's queries, in a ring to the right "
    "as before, which sends and holds no more than that one. "
    "`attend(q, k, v, mask)` adds `mask` to the scores; -inf hides a key. What lies wholly ahead needs no "
    "`attend`: it is only handed on.",
    stub="""\
def causal_ring(q, k, v):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    ...  # your code
""",
    solution="""\
def causal_ring(q, k, v):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    ahead = torch.full((q.shape[-2], q.shape[-2]), -torch.inf).triu(1)
    whole = attend(q, k, v, ahead)
    for step in range(1, world_size):
        coming = torch.empty_like(block)
        works = dist.isend(block, right), dist.irecv(coming, left)
        for work in works:
            work.wait()
        block = coming
        if step <= rank:  # it is the block of rank - step
            whole = merge(*whole, *attend(q, *block))
    return whole[0]
""",
    why="The block that comes in step s is that of rank r - s: it lies before your own as long as s <= r, "
    "and wholly ahead after that. Rank 0 computes one block and the last rank R: all wait for the last. "
    "Production code gives each rank a piece from the front and one from the back of the sequence.",
    hints=(
        "Whose block is it in step s? It came s ranks to the right, so it is that of rank - s, modulo R. Is "
        "that before yours, or ahead?",
        "Your own block takes a mask: torch.full((c, c), -torch.inf).triu(1). Blocks of lower ranks take "
        "none, those of higher ranks are only handed on.",
    ),
    given=_sequence,
    use=_attending,
    answer=_output_and_begun,
    judge=like_solution(1e-12, part="output"),
    limits=(NO_COLLECTIVE, ONE_BLOCK_A_STEP, Limit("memory", _held_at_once(3), KEEP_NONE)),
    demands=(TO_THE_RIGHT, _two_blocks),
    wrong=(
        edit("k, v, ahead)", "k, v)", "if step <= rank", "if True",
             says="Tokens look ahead: that is the attention to all keys."),
        edit("k, v, ahead)", "k, v)",
             says="Within a rank's own block tokens still look ahead: it needs a mask."),
        body(AHEAD + "return attend(q, k, v, ahead)[0]",
             says="Each rank attends to its own block alone: tokens of lower ranks are missing."),
        edit("if step <= rank", "if True",
             says="Blocks of other ranks are all in there, those ahead, too: only your own is masked."),
        edit("if step <= rank", "if (rank + step) % world_size < rank",
             says="You took the block of rank - step for that of rank + step. It came from the left."),
        edit("if step <= rank", "if step < rank",
             says="The block of rank 0 is missing: it comes in the step whose number is your rank's."),
        edit("triu(1)", "tril(-1)", says="The mask hides what lies before a token, and not what is ahead: triu(1)."),
        edit("triu(1)", "triu()", says="are wrong"),
        edit("*attend(q, *block)", "*attend(q, *block, ahead)",
             says="Blocks of lower ranks are masked, too: all of their tokens lie before yours."),
        edit("range(1, world_size)", "range(1, rank + 1)", says="deadlock: ", hangs=True),
        edit("torch.stack([k, v])", "torch.stack([k, v]).float()", "*block)", "*block.double())",
             says="of the largest number"),
        body(AHEAD + GATHERED + "whole = attend(q, k, v, ahead)\nfor block in every[:rank]:\n"
             "    whole = merge(*whole, *attend(q, *block))\nreturn whole[0]", says=NO_COLLECTIVE.why),
        body(AHEAD + EXCHANGED + "before = [blocks[step] for step in range(rank, -1, -1)]\n"
             "mask = torch.cat([torch.zeros(len(ahead), rank * len(ahead)), ahead], 1)\n"
             "return attend(q, *torch.cat(before, -2), mask)[0]", says=KEEP_NONE),
        body(AHEAD + EXCHANGED + "out, log = attend(q, k, v, ahead)\nfor block in blocks[1 : rank + 1]:\n"
             "    out, log = merge(out, log, *attend(q, *block))\nreturn out", says=TWO_BLOCKS),
        edit("left, right =", "right, left =", "if step <= rank", "if (rank + step) % world_size < rank",
             says="every rank sends to the right and receives from the left"),
    ),
    uses=("ring_attention.attend", "ring_attention.merge"),
)  # fmt: skip


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
    """Per rank some tokens, not as many as elsewhere, the expert of each, and the rank's own expert.

    In a world of more than two no token of rank 0 goes to the last expert, and none of rank 1 to the first.
    """
    width = int(torch.randint(2, 4, (), generator=generator))
    given: Arguments = []
    while len(given) < size:
        n = 12 + int(torch.randint(9, (), generator=generator))
        all_but_one = len(given) < 2 < size
        choice = torch.randint(size - all_but_one, (n,), generator=generator) + all_but_one * len(given)
        if _tells(choice):
            given.append((normal(generator, n, width), choice, Expert(normal(generator, width, width))))
    return given


def _rows(arguments: Arguments, stay: bool) -> list[int]:
    """How many tokens each rank sends there and answers back; with those that stay where they are, or without."""
    return [
        sum(
            int((choice == expert).sum()) * ((sender == rank) + (expert == rank))
            for sender, (_, choice, _) in enumerate(arguments)
            for expert in range(len(arguments))
            if stay or sender != expert
        )
        for rank in range(len(arguments))
    ]


def _of_rows(arguments: Arguments, rows: int) -> int:
    return rows * arguments[0][0][0].nbytes


SOLUTION = algorithm("experts.send_to_experts", "my_send_to_experts")
BACK_IN_ORDER = "    out = torch.empty_like(x)\n    out[order] = answers\n    return out\n"
THREE = "Three exchanges: how many, there, and back. The order is known on this rank."
TO_ITS_EXPERT = "A token goes to its own expert alone, and its answer to the rank that it came from."
NOT_WEIGHTS = "Tokens travel to the experts, and not experts, or what is in them, to the tokens."
SEND_TO_EXPERTS = Exercise(
    task="Rank $r$ has expert $r$. `choice` says which expert each of the rank's tokens goes to; the "
    "function shall return, token by token, what its expert made of it. It runs without an error, the "
    "shape is right, and tokens get each other's answers. **Find the bug and mend it**, with these three "
    "exchanges: a token still goes to its own expert alone, and back.",
    stub=edited(SOLUTION, "expert):", "expert):  # tokens, the expert of each, our own",
                BACK_IN_ORDER, "    return answers\n"),
    solution=SOLUTION,
    why="all_to_all sends contiguous rows, so tokens leave sorted by expert, and answers come back so. "
    "answers[i] belongs to token order[i]: out[order] = answers puts it there. answers[order] would sort a "
    "second time.",
    hints=(
        "In which order do tokens leave? In which order do their answers come back?",
        "answers[i] is the answer to x[order[i]]. Write it to that place of a new tensor.",
    ),
    given=_tokens,
    judge=like_solution(1e-10),
    limits=(
        Limit("collectives", lambda arguments: 3, THREE),
        Limit(
            "sent",
            lambda arguments: 8 * len(arguments) + _of_rows(arguments, max(_rows(arguments, stay=True))),
            TO_ITS_EXPERT,
            least=lambda arguments: _of_rows(arguments, max(_rows(arguments, stay=False)) // 2),
            too_little=NOT_WEIGHTS,
        ),
    ),
    wrong=(
        edit(BACK_IN_ORDER, "    return answers * 1\n",
             says="The answers are in the order of the experts, in which the tokens left: each belongs to token "
             "order[i]."),
        edit(BACK_IN_ORDER, "    return answers[order]\n",
             says="answers[order] sorts a second time. The other way round: out[order] = answers."),
        body("return expert(x)", says="Every token was given to the rank's own expert: nothing has travelled."),
        edit("expert(mine)", "mine", says="The tokens came back as they went: no expert has seen them."),
        edit("x[order]", "x", "out[order] = answers", "out = answers",
             says="are wrong"),
        edit("(stable=True)", "(descending=True)", says="are wrong"),
        edit("bincount(minlength=dist.get_world_size())", "bincount()", says="in a world of 3, "),
        edit("expert(mine)", "expert(mine.float().double())", says="of the largest number"),
        edit("return out", "return out.float()", says="the numbers are float32, and float64 was asked for"),
        body("every = [None] * world_size\ndist.all_gather_object(every, (x, choice))\n"
             "mine = [expert(tokens) for tokens, _ in every]\nback = [None] * world_size\n"
             "dist.all_gather_object(back, mine)\n"
             "return torch.stack([back[e][rank][i] for i, e in enumerate(choice.tolist())])", says=THREE),
        body("""\
out, others = torch.empty_like(x), [None] * world_size
dist.all_gather_object(others, (x, choice))
for asked, (tokens, wanted) in enumerate(others):
    if asked != rank:
        dist.isend(expert(tokens), asked).wait()
    for other in range(world_size if asked == rank else 0):
        got = expert(x) if other == rank else torch.empty_like(x)
        if other != rank:
            dist.recv(got, other)
        out[choice == other] = got[choice == other]
return out""", says=TO_ITS_EXPERT),
        body("matrices = [torch.empty_like(expert.matrix) for _ in range(world_size)]\n"
             "dist.all_gather(matrices, expert.matrix)\n"
             "return torch.stack([(row @ matrices[e]).tanh() for row, e in zip(x, choice)])", says=NOT_WEIGHTS),
        body("from labkit.algorithms.experts import send_to_experts as ready\nreturn ready(x, choice, expert)",
             says="that is what you shall write"),
    ),
    becomes="send_to_experts",
)  # fmt: skip

LESSON = Lesson(
    number="20",
    title="Long sequences and many experts",
    predictions=(Prediction("scores_fewer", "times fewer"),),
    exercises=(MERGE, RING_ATTENTION, SEND_TO_EXPERTS, CAUSAL_RING),
    questions=questions("20"),
)
