"""Lesson 17, Fill the pipeline: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
from labkit.exercises.judge import close, like_solution
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons.networks import gradient, linear, normal
from labkit.exercises.lessons.slots import told, wrong_slots

if TYPE_CHECKING:
    Pipeline = tuple[list[torch.nn.Sequential], list[tuple[torch.Tensor, torch.Tensor]], Callable]

WIDTH = 5
"""Numbers in an activation of one sample."""


def _between(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _pipeline(
    generator: torch.Generator, stages: int, microbatches: int, layers: int = 1, samples: int = 3
) -> Pipeline:
    """Stages, micro-batches and their loss, the same on every rank."""

    def layer() -> tuple[torch.nn.Module, ...]:
        made = linear(generator, WIDTH, WIDTH, bias=False, dtype=torch.float64)
        # Orthogonal: what goes in is still felt behind many layers.
        made.weight.data = torch.linalg.qr(made.weight.data).Q
        return made, torch.nn.LeakyReLU(0.8)

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (output - y).square().mean() / microbatches

    made = [torch.nn.Sequential(*sum((layer() for _ in range(layers)), ())) for _ in range(stages)]
    return made, list(zip(*normal(generator, 2, microbatches, samples, WIDTH), strict=True)), loss


def _for_each(function: Callable, arguments: tuple) -> list:
    """Call the learner's function for each case: the check's own world first, then larger ones."""
    return [function(*case) for case in arguments[0]]


def _first_wrong(cases: list[tuple], found: list, wrong: Callable[..., str]) -> str:
    """Say what is wrong with the schedule of the first case that has a mistake; "" if none has."""
    for case, slots in zip(cases, found, strict=True):
        if sentence := wrong(slots, *case):
            stages, microbatches, *room = case
            limited = f", and room for {room[0]}" if room else ""
            return f"{sentence}\n  That was for {stages} stages and {microbatches} micro-batches{limited}."
    return ""


def _fewer_and_more(generator: torch.Generator, size: int) -> Arguments:
    """Stages and micro-batches: more of either than of the other, up to nine stages, and one alone."""
    pairs = (
        (size, size + 2, size + 5),
        (_between(generator, 5, 9), 1, 4),
        (_between(generator, 5, 9), 9, 14),
    )
    cases = [(stages, _between(generator, low, high)) for stages, low, high in pairs]
    return [([*cases, (1, _between(generator, 1, 3))],)] * size


def _not_1f1b(slots: Any, stages: int, microbatches: int) -> str:
    """The first thing that is wrong with the slots, in a sentence, or ""."""
    from labkit.schedule import stored

    if wrong := wrong_slots(slots, stages, microbatches, microbatches, most=2 * (microbatches + stages - 1)):
        return wrong
    for stage, held in enumerate(stored(slots)):
        if max(held) > stages - stage:
            return (
                f"Stage {stage} stores {max(held)} micro-batches at once, and {stages - stage} are enough: "
                "after K - s forwards, each further one waits for a backward."
            )
    return ""


DIFFER = "The ranks differ: every rank must return the slots of all stages"
NO_CALL = Limit("collectives", lambda arguments: 0, "Only return your answer; the check does the rest.")
ONE_AT_A_TIME = """\
every = range(microbatches)
return [[slot for m in every for slot in (Forward(m), Backward(m))] for _ in range(stages)]"""
MY_1F1B = Exercise(
    task="**1F1B**, one forward, one backward: stage $s$ does $K - s$ forwards (or all, if there are fewer), "
    "and from then on a backward before each further forward; the backwards that are left come last. Return "
    "the slots of all stages, the same on every rank, without a message.",
    stub="""\
def my_one_forward_one_backward(stages, microbatches):
    slots: list[list] = []
    for stage in range(stages):
        ahead = min(stages - stage, microbatches)
        ...  # your code: append the stage's list of Forward(m) and Backward(m)
    return slots
""",
    solution=algorithm("pipeline.one_forward_one_backward", "my_one_forward_one_backward"),
    why="The last stage goes back with a micro-batch as soon as it has it. The stage before needs one more "
    "under way to have something to do meanwhile, and so on: stage s needs K - s.",
    hints=(
        "Write the lists for two stages and four micro-batches on paper: F0 F1 B0 F2 B1 ... and F0 B0 F1 ...",
        "First `ahead` forwards. Then for each m a Backward(m), and Forward(m + ahead) if there is one.",
    ),
    given=_fewer_and_more,
    use=_for_each,
    answer=lambda arguments, result: _first_wrong(arguments[0], result, _not_1f1b),
    judge=told,
    limits=(NO_CALL, Limit("messages", lambda arguments: 0, NO_CALL.why)),
    uses=("pipeline.Forward", "pipeline.Backward"),
    wrong=(
        body("every = range(microbatches)\nreturn [[*map(Forward, every), *map(Backward, every)] for _ in range(stages)]",
             says="micro-batches at once, and 2 are enough: after K - s forwards"),
        edit("stages - stage,", "stages,", says="the schedule is not what was asked for"),
        edit("stages - stage,", "stages - stage - 1,", says="Rank 1 does B0 in slot 0, before F0"),
        body(ONE_AT_A_TIME, says="It takes "),
        edit("return slots", "return slots[rank]", says="A list of slots for each stage"),
        edit("return slots", "slots[-1].pop()\n    return slots", says="not what was asked for"),
        edit("return slots", "return slots if rank == 0 else slots[::-1]", says=DIFFER),
        edit("return slots", "return slots if rank == 0 else None", says=DIFFER),
        edit("    return slots\n", "", says="it is None"),
        edit("return slots", "dist.barrier()\n    return slots", says=NO_CALL.why),
        edit("return slots", "return slots if rank else (dist.recv(torch.zeros(1), 1), slots)[1]", says="deadlock",
             hangs=True),
        edit("min(stages - stage, microbatches)", "stages - stage", says="and the last micro-batch is "),
        edit("stages - stage,", "min(4, stages) - min(stage, 3),", says="the schedule is not what was asked for"),
        edit("for stage in range(stages)", "for stage in range(world_size)", says="It has slots for 2 stages, not for "),
        edit("            slots[stage].append(Backward(m))\n", "", "slots[stage].append(Forward(m + ahead))",
             "slots[stage].append(Forward(m + ahead))\n            slots[stage].append(Backward(m))",
             says="the schedule is not what was asked for"),
        edit("for m in range(ahead)]", "for m in reversed(range(ahead))]", says="the schedule is not what was asked for"),
        body("from labkit.algorithms import one_forward_one_backward\nreturn one_forward_one_backward(stages, microbatches)",
             says="that is what you shall write"),
    ),
    becomes="one_forward_one_backward",
)  # fmt: skip


def _deep(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a stage of its own; micro-batches of which rank 0 uses x and the last rank y; their loss.

    The activations of the ten layers outweigh weights and gradients.
    """
    made, batches, loss = _pipeline(generator, size, _between(generator, 6, 8), layers=10, samples=64)
    return [(stage, batches, loss, batches[0][0]) for stage in made]


def _gradient(arguments: tuple, result: Any) -> Any:
    return gradient(arguments[0])


def _messages(arguments: Arguments) -> int:
    return 2 * len(arguments[0][1]) * (len(arguments) - 1)


ONE_EACH = (
    "Between neighbours there is one message for each activation of a micro-batch, and one for each gradient."
)
ALL_FORWARDS_FIRST = Limit(
    "steps",
    lambda arguments: 4 * len(arguments[0][1]) + 2 * len(arguments),
    "A rank in the middle has 4M messages, and 2K more fill and drain the pipeline. Longer chains "
    "mean that a micro-batch waits until the one before it is back: all forwards first.",
)
NEIGHBOURS = Limit("collectives", lambda arguments: 0, "Messages between neighbours are enough.")
GPIPE = """\
def gpipe_step(stage, batches, loss, like):
    kept, sent = [], []
    for x, y in batches:
        if rank > 0:
            x = torch.empty_like(like)
            dist.recv(x, rank - 1)
            x.requires_grad_()
        output = stage(x)
        if rank < world_size - 1:
            sent.append(dist.isend(output.detach(), rank + 1))
        kept.append((x, output if rank < world_size - 1 else loss(output, y)))
    for x, output in kept:
        backward_pass(x, output, sent)
    for work in sent:
        work.wait()
"""
WAIT = "    for work in sent:\n        work.wait()\n"
LAST_ALONE = "This is the gradient of the last micro-batch alone: they add up."
ONE_BUFFER = Exercise(
    task="A step of GPipe. It runs without an error, the loss is right, and so is the gradient on rank 0; on "
    "the other ranks it is wrong. **Find the bug and mend it**, without a collective: one message for "
    "each activation and each gradient, all forwards first.",
    stub=edited(
        GPIPE,
        "kept, sent = [], []",
        "kept, sent, received = [], [], torch.empty_like(like)",
        "x = torch.empty_like(like)\n            dist.recv(x, rank - 1)\n            x.requires_grad_()",
        "dist.recv(received, rank - 1)\n            x = received.detach().requires_grad_()",
    ),
    solution=GPIPE,
    why="detach() shares its memory, so all micro-batches have one input: the last that came. Forward that "
    "is right, each in its turn; backward the first layer multiplies with what is there now. Autograd sees "
    "what torch changes in place, but not what MPI writes.",
    hints=(
        "Forward is right. Which tensors does backward() need again, and are they still what they were?",
        "detach() makes no copy. How many inputs must a stage hold before its first backward pass?",
    ),
    given=_deep,
    answer=_gradient,
    judge=like_solution(1e-9),
    limits=(NEIGHBOURS, Limit("messages", _messages, ONE_EACH, least=_messages, too_little=ONE_EACH), ALL_FORWARDS_FIRST),
    uses=("backward_pass",),
    wrong=(
        edit("kept, sent = [], []", "kept, sent, came = [], [], torch.empty_like(like)",
             "x = torch.empty_like(like)", "x = came.detach()",
             says="Rank 0, which receives no input, is right. What does `x` of micro-batch 0 hold when its "
             "backward pass comes? Each micro-batch needs a tensor of its own."),
        edit("        backward_pass(", "        stage.zero_grad()\n        backward_pass(", says=LAST_ALONE),
        edit("    for x, output in kept:\n        backward_pass(x, output, sent)\n", "        backward_pass(*kept.pop(), sent)\n",
             says="all forwards first."),
        edit("kept, sent = [], []", """\
x, y = (torch.cat(part) for part in zip(*batches))
    batches, like, mean, many = [(x, y)], x, loss, len(batches)
    loss = lambda output, y: mean(output, y) * many
    kept, sent = [], []""", says=ONE_EACH),
        edit(WAIT, "    return sent\n", says="never waits for its isend"),
        edit("if rank > 0:", "if rank > 1:", says="rank 1 raised an error for which the others wait in vain", hangs=True),
        edit("dist.recv(x,", "x.zero_()\n            dist.recv(torch.empty_like(x),",
             says="What came from the left is not what the stage computed with."),
        edit("dist.recv(x,", "x = batches[len(kept)][0].clone()\n            dist.recv(torch.empty_like(x),",
             says="Each stage used x from `batches`. That is the input of rank 0 alone."),
        edit("x.requires_grad_()", "x = x.half().double().requires_grad_()", says="wrong"),
        edit("in kept:", "in kept[1:]:", "work.wait()", "work.wait()\n    return\n    kept", says="are wrong"),
        edit("(x, output if rank < world_size - 1 else loss(output, y))",
             "(x, output if rank < world_size - 1 else loss(output, y) * len(batches))",
             says="The loss has its division already: it is a part of the mean over all micro-batches."),
        edit("        backward_pass(x, output, sent)", "        pass\n    for x, output in kept[:1] * len(kept):\n"
             "        backward_pass(x, 1 * output, sent)", says="", hangs=True),
    ),
)  # fmt: skip


def _room(generator: torch.Generator, size: int) -> Arguments:
    """Draw stages, micro-batches and room: in the check's world one less than stages, then larger worlds."""
    room = max(1, size - 1)
    cases = [(size, room * _between(generator, 2, 3) + _between(generator, 1, room), room)]
    for most in (20, 3):
        stages = _between(generator, 5, 9)
        cases.append((stages, _between(generator, 1, most), _between(generator, 2, stages - 1)))
    return [(cases,)] * size


def _fewest_slots(stages: int, microbatches: int, room: int) -> int:
    """Count the slots that every schedule takes at least: one for each pass, where `room` is below `stages`."""
    groups = -(-microbatches // room)
    return 2 * stages * groups + 2 * ((microbatches - 1) % room)


def _network_for(stages: int, microbatches: int, room: int) -> Pipeline:
    return _pipeline(torch.Generator().manual_seed(microbatches), stages, microbatches)


def _not_in_room(slots: Any, stages: int, microbatches: int, room: int) -> str:
    return wrong_slots(slots, stages, microbatches, room, _fewest_slots(stages, microbatches, room))


def _executed(arguments: tuple, result: list) -> torch.Tensor | str:
    """Run the learner's schedule and return this rank's gradient; or say what is wrong with the schedule."""
    from labkit.algorithms.pipeline import run_pipeline

    cases = arguments[0]
    if wrong := _first_wrong(cases, result, _not_in_room):
        return wrong
    made, batches, loss = _network_for(*cases[0])
    own = dist.get_rank()
    run_pipeline(result[0][own], made[own], batches, loss, batches[0][0])
    return gradient(made[own])


def _judged(answers: Answers) -> str:
    if wrong := told(answers):
        return wrong
    made, batches, loss = _network_for(*answers.arguments[0][0][0])
    for x, y in batches:
        loss(torch.nn.Sequential(*made)(x), y).backward()
    if all(close(found, gradient(stage)) for found, stage in zip(answers.found, made, strict=True)):
        return ""
    return f"the gradients are wrong, though each rank's slots are possible\n{DIFFER}."


TIMED = "time[Forward(m)] = start + stage"
PIPELINE_IN_ROOM = Exercise(
    task="Each rank has room for the activations of `room` micro-batches, fewer than there are stages. "
    "Return the slots of all stages, the same on every rank. Budget, if each pass takes one slot: $2K$ slots "
    "for each group of `room` micro-batches, of which the last may be smaller, and 2 more for each "
    "micro-batch of that last group but its first. No collective.",
    stub="""\
def pipeline_in_room(stages, microbatches, room):
    slots = []
    for stage in range(stages):
        time = {}  # of each Forward(m) and Backward(m) the slot in which it runs
        ...  # your code: fill it
        slots.append(sorted(time, key=time.get))
    return slots
""",
    solution="""\
def pipeline_in_room(stages, microbatches, room):
    slots = []
    for stage in range(stages):
        time = {}
        for m in range(microbatches):
            start = 2 * stages * (m // room) + 2 * (m % room)
            time[Forward(m)] = start + stage
            time[Backward(m)] = start + 2 * stages - 1 - stage
        slots.append(sorted(time, key=time.get))
    return slots
""",
    why="It is a timetable. A micro-batch is under way for 2K slots: through all stages and back. One "
    "follows the other after 2 slots, so a stage has its forwards in even slots and its backwards in odd "
    "ones, or the other way round: they never meet. When `room` of them are under way, the next must wait "
    "until the first has ended. With room for K nobody waits for room, and stages store what 1F1B stores.",
    hints=(
        "When does micro-batch m start at stage 0? 2 slots after the one before it, and 2K slots after "
        "micro-batch m - room, whichever is later.",
        "Forward at start + stage, backward at start + 2K - 1 - stage, with start = 2K (m // room) + "
        "2 (m % room).",
    ),
    given=_room,
    use=_for_each,
    answer=_executed,
    judge=_judged,
    limits=(NO_CALL,),
    uses=("pipeline.Forward", "pipeline.Backward"),
    wrong=(
        body("from labkit.algorithms import gpipe\nreturn gpipe(stages, microbatches)",
             says="in a world of 2, the schedule is not what was asked for\n  Rank 0 stores "),
        body("from labkit.algorithms import one_forward_one_backward as f\nreturn f(stages, microbatches)",
             says="Rank 0 stores 2 micro-batches, and has room for 1: slot 1 (F1) is the first with more."),
        body("""\
slots = []
for stage in range(stages):
    ahead = min(stages - stage, room, microbatches)
    own = [Forward(m) for m in range(ahead)]
    for m in range(microbatches):
        own.append(Backward(m))
        if m + ahead < microbatches:
            own.append(Forward(m + ahead))
    slots.append(own)
return slots""", says="the schedule is not what was asked for\n  It takes "),
        body("""\
from labkit.algorithms import one_forward_one_backward
slots = [[] for _ in range(stages)]
for first in range(0, microbatches, room):
    count = min(room, microbatches - first)
    for own, more in zip(slots, one_forward_one_backward(stages, count)):
        own += [type(slot)(slot.microbatch + first) for slot in more]
return slots""", says="the schedule is not what was asked for\n  It takes "),
        body(ONE_AT_A_TIME, says="slots, not at most"),
        edit("(m // room) + 2 * (m % room)", "m", says="\n  That was for "),
        edit("return slots", "slots[1] = slots[1][::-1]\n    return slots", says="Rank 1 does B"),
        body(ONE_AT_A_TIME.replace("return", "slots =") + """
if microbatches > 1:
    slots[1][:4] = [Forward(0), Forward(1), Backward(0), Backward(1)]
return slots""",
             says="Deadlock: rank 0 in slot 1 expects gradient 0 from rank 1, rank 1 in slot 1 expects activation "
             "1 from rank 0; each waits for the next."),
        body(ONE_AT_A_TIME.replace("return", "slots =") + """
slots[1] = [slot for m in every[::-1] for slot in (Forward(m), Backward(m))]
return slots""", says="in slot 0, but rank 0 sends it activation 0 (its slot 0)."),
        edit("return slots", "slots[0].remove(Backward(0))\n    return slots", says="Rank 0 ends after slot "),
        edit("return slots", "slots[1].append(Forward(0))\n    return slots", says="and has done it in slot 0."),
        edit("range(microbatches)", "range(microbatches + 1)", says="and the last micro-batch is "),
        body("from labkit.algorithms import gpipe\nreturn gpipe(4, microbatches)", says="It has slots for 4 stages, not for 2."),
        edit("return slots", "return [own if s == rank else [] for s, own in enumerate(slots)]",
             says="and room for 1.\n" + DIFFER),
        edit("    return slots\n", "", says="of Forward(m) and Backward(m); it is None."),
        edit("return slots", "return [['F0', 'B0']] * stages", says="it is [['F0', 'B0'], ['F0', 'B0']]."),
        edit("return slots", "return slots if rank == 0 else None",
             says="deadlock: rank 1 finished the cell, and others wait for it", hangs=True),
        edit("return slots", "torch.distributed.barrier()\n    return slots", says=NO_CALL.why),
        edit("range(microbatches):", "range(microbatches):\n            other = microbatches - 1 - m if rank else m",
             "time[Forward(m)]", "time[Forward(other)]", "time[Backward(m)]", "time[Backward(other)]",
             says="the gradients are wrong, though each rank's slots are possible"),
        edit("room) +", "max(1, min(room, 3))) +", "(m % room)", "(m % min(room, 3))",
             says="the schedule is not what was asked for"),
        edit("start + stage", "start + min(stage, 3)", says="the schedule is not what was asked for"),
    ),
)  # fmt: skip


def _three_stored(arguments: Arguments) -> int:
    """Bytes: each of ten layers stores its input and what its linear part gives."""
    return 3 * (2 * 10 + 1) * arguments[0][3].nbytes


PIPELINES = """\
from labkit.algorithms import gpipe, one_forward_one_backward, run_pipeline
from labkit.schedule import Backward, Forward
"""
KEEP_INPUTS = "Of each micro-batch keep what the stage receives, and no graph."
RECOMPUTING_STEP = Exercise(
    task="The authors of GPipe store less than our `gpipe`: of each micro-batch only what the stage "
    "receives. Before its backward pass they compute its forward pass once more (recomputation). Write such "
    "a step: all forwards, then all backwards. Leave the gradients in the stage's parameters. The arguments "
    "are those of `run_pipeline`. Budget: memory for the activations of three micro-batches, each activation "
    "and each gradient sent once, no collective, and no long chain of messages: a micro-batch must not wait "
    "until the one before it is back.",
    stub="""\
def recomputing_step(stage, batches, loss, like):
    inputs, sent = [], []
    ...  # your code: forward_pass and backward_pass may help
    for work in sent:
        work.wait()
""",
    solution="""\
def recomputing_step(stage, batches, loss, like):
    inputs, sent = [], []
    with torch.no_grad():
        for x, y in batches:
            inputs.append(forward_pass(stage, loss, x, y, like, sent)[0])
    for x, (_, y) in zip(inputs, batches):
        output = stage(x)
        if rank == world_size - 1:
            output = loss(output, y)
        backward_pass(x, output, sent)
    for work in sent:
        work.wait()
""",
    why="A stage keeps M inputs, and the activations of one micro-batch at a time. It pays with a second "
    "forward pass, for which it need not wait until the gradient comes. torch.utils.checkpoint does the same "
    "to any part of a network.",
    hints=(
        "The forwards need no graph: torch.no_grad(). What must be there when the gradient of micro-batch m "
        "comes?",
        "forward_pass returns the stage's input first: keep that, drop the output. In the second loop "
        "output = stage(x) builds the graph, and backward_pass(x, output, sent) goes back through it.",
        "On the last rank backward_pass wants the loss in place of the output: loss(output, y).",
    ),
    given=_deep,
    answer=_gradient,
    judge=like_solution(1e-9),
    limits=(
        NEIGHBOURS,
        Limit(
            "messages",
            _messages,
            "Each activation is sent twice: forward_pass receives and sends. Recompute with `stage(x)`.",
        ),
        Limit("memory", _three_stored, KEEP_INPUTS),
        ALL_FORWARDS_FIRST,
    ),
    uses=("forward_pass", "backward_pass"),
    wrong=(
        body(f"{PIPELINES}run_pipeline(gpipe(world_size, len(batches))[rank], stage, batches, loss, like)",
             says="in a world of 2, every rank is right, but over budget: bytes of new tensors at once "),
        body(f"{PIPELINES}slots = one_forward_one_backward(world_size, len(batches))\n"
             "run_pipeline(slots[rank], stage, batches, loss, like)", says=KEEP_INPUTS),
        body(f"{PIPELINES}slots = [slot for m in range(len(batches)) for slot in (Forward(m), Backward(m))]\n"
             "run_pipeline(slots, stage, batches, loss, like)",
             says="in a world of 4, every rank is right, but over budget: messages one after the other "),
        edit("    for x, (_, y) in zip(inputs, batches):\n", "    for x, y in batches:\n", "        output = stage(x)\n",
             "        x, output = forward_pass(stage, loss, x, y, like, sent)\n",
             "        if rank == world_size - 1:\n            output = loss(output, y)\n", "",
             says="Each activation is sent twice: forward_pass receives and sends. Recompute with"),
        edit("inputs, sent = [], []", """\
x, y = (torch.cat(part) for part in zip(*batches))
    batches, like, mean, many = [(x, y)], x, loss, len(batches)
    loss = lambda output, y: mean(output, y) * many
    inputs, sent = [], []""", says="over budget: bytes of new tensors at once "),
        edit("    for work", "    dist.barrier()\n    for work", says=NEIGHBOURS.why),
        body("""\
for x, y in batches:
    x = torch.empty_like(like)
    dist.recv(x, (rank - 1) % world_size)
    dist.send(stage(x).detach(), (rank + 1) % world_size)""",
             says="deadlock: each waits for another\nrank 0 in recv from rank 1, line 4: dist.recv(", hangs=True),
        edit("stage(x)", "stage(x.requires_grad_())", "    for x, (_", "    inputs = [x.clone() for x, _ in batches]\n    for x, (_",
             says="Each stage used x from `batches`. That is the input of rank 0 alone."),
        edit("        output = stage", "        stage.zero_grad()\n        output = stage", says=LAST_ALONE),
        edit("zip(inputs, batches)", "zip(inputs[:0], batches)", says="ranks 0-1 are wrong\n  rank 0 expected "),
        edit("    for x, (_", "    if rank == 1:\n        inputs, batches = inputs[::-1], batches[::-1]\n    for x, (_",
             says=" wrong\n  rank 0 expected "),
        edit("if rank == world_size - 1", "if False", hangs=True,
             says="grad can be implicitly created only for scalar outputs"),
        edit("like, sent)[0])", "like, sent)[0].half().double().requires_grad_(rank > 0))", says="wrong"),
        edit("output = loss(output, y)", "output = loss(output, y) / len(batches)",
             says="The loss has its division already: it is a part of the mean over all micro-batches."),
        edit("with torch.no_grad():", "kept = []\n    if True:",
             "inputs.append(forward_pass(stage, loss, x, y, like, sent)[0])",
             "kept.append(forward_pass(stage, loss, x, y, like, sent))\n            inputs.append(kept[-1][0])", says=KEEP_INPUTS),
        edit(WAIT, "    return sent\n", says="never waits for its isend"),
        edit("with torch.no_grad():", "kept = []\n    with torch.autograd.graph.saved_tensors_hooks(\n"
             "        lambda t: t.detach().numpy().copy(), torch.from_numpy):",
             "inputs.append(forward_pass(stage, loss, x, y, like, sent)[0])",
             "kept.append(forward_pass(stage, loss, x, y, like, sent))\n            inputs.append(kept[-1][0])",
             "        output = stage(x)\n        if rank == world_size - 1:\n            output = loss(output, y)\n",
             "        output = kept.pop(0)[1]\n", says=KEEP_INPUTS),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="17",
    title="Fill the pipeline",
    predictions=(Prediction("idle_percent", "%"),),
    exercises=(MY_1F1B, ONE_BUFFER, PIPELINE_IN_ROOM, RECOMPUTING_STEP),
    questions=questions("17"),
)
