"""Lesson 15, Fill the pipeline: its prediction, exercises and questions."""

from itertools import accumulate, combinations, pairwise

from labkit.exercises.describe import Answers, Choice, Exercise, Lesson, Limit, Prediction, Question
from labkit.exercises.judge import compare
from labkit.exercises.later import dist, torch
from labkit.schedule.pipeline import Backward, Forward, pipeline_schedule
from labkit.schedule.pipeline_checks import pipeline_violations

WIDTH, SAMPLES = 5, 3
NO_COLLECTIVE = Limit("collectives", lambda arguments: 0, "Only return your answer; the check does the rest.")


def _room(generator, size):
    """Room for one micro-batch less than there are stages, and the last group of `room` has one."""
    room = max(1, size - 1)
    return [(size, 1 + room * int(torch.randint(2, 4, (), generator=generator)), room)] * size


def _budget(stages, microbatches, room):
    return 2 * stages * -(-microbatches // room)


def _network(stages, microbatches):
    """Stages, micro-batches and their loss, the same on every rank."""
    generator = torch.Generator().manual_seed(microbatches)

    def stage():
        linear = torch.nn.utils.skip_init(torch.nn.Linear, WIDTH, WIDTH, dtype=torch.float64)
        for p in linear.parameters():
            p.data.copy_(torch.randn(p.shape, dtype=torch.float64, generator=generator))
        return torch.nn.Sequential(linear, torch.nn.Tanh())

    def loss(output, y):
        return (output - y).square().mean() / microbatches

    made = [stage() for _ in range(stages)]
    x = torch.randn(2, microbatches, SAMPLES, WIDTH, dtype=torch.float64, generator=generator)
    return made, list(zip(*x, strict=True)), loss


def _gradient(stage):
    return torch.cat([p.grad.flatten() for p in stage.parameters()])


def _executed(arguments, result):
    """The gradient that the slots leave on this rank; or what is wrong with them, and then nothing is run."""
    from labkit.algorithms.pipeline import run_pipeline

    stages, microbatches, room = arguments
    if not _are_slots(result):
        return (
            f"A list of slots for each stage was expected, of Forward(m) and Backward(m); it is {result!r}."
        )
    if len(result) != stages:
        return f"It has slots for {len(result)} stages, not for {stages}."
    if wrong := pipeline_violations(result, microbatches, room):
        return str(wrong[0])
    if late := _late(result, _budget(*arguments)):
        return late
    made, batches, loss = _network(stages, microbatches)
    own = dist.get_rank()
    run_pipeline(result[own], made[own], batches, loss, batches[0][0])
    return _gradient(made[own])


def _are_slots(result) -> bool:
    lists = isinstance(result, list | tuple) and all(isinstance(own, list | tuple) for own in result)
    return lists and all(isinstance(slot, Forward | Backward) for own in result for slot in own)


def _late(slots, most) -> str:
    """Which pass is the first beyond the budget, on the clock of a simulation in which each takes 1."""
    from labkit.simulate import Network, simulate

    trace = simulate(pipeline_schedule(slots), Network(alpha=0.0, bandwidth=1.0), 0)
    passes = [event for event in trace.events if event.label[:1] in ("F", "B")]
    taken = max(event.end for event in passes)
    if taken <= most:
        return ""
    late = min((event for event in passes if event.end > most), key=lambda event: event.start)
    return (
        f"It takes {taken:.0f} slots, not at most {most}: "
        f"rank {late.rank} does {late.label} only in slot {late.start:.0f}."
    )


def _whole(arguments):
    stages, microbatches, _ = arguments[0]
    made, batches, loss = _network(stages, microbatches)
    for x, y in batches:
        loss(torch.nn.Sequential(*made)(x), y).backward()
    return [_gradient(stage) for stage in made]


def _judged(answers: Answers) -> str:
    told = [found for found in answers.found if isinstance(found, str)]
    if not told:
        return compare(_whole)(answers)
    others = len(set(told)) > 1 or len(told) < answers.size
    more = "\nThe ranks differ: every rank must return the slots of all stages." if others else ""
    return f"the schedule is not what was asked for\n  {told[0]}{more}"


PIPELINE_IN_ROOM = Exercise(
    task="Each rank has room for the activations of `room` micro-batches, fewer than there are stages. "
    "Return the slots of all stages. Budget, if each pass takes one slot: $2K$ slots for each group of "
    "`room` micro-batches; the last group may be smaller.",
    stub="""\
def pipeline_in_room(stages, microbatches, room):
    slots = [[] for _ in range(stages)]
    ...  # your code: slots[stage].append(Forward(m)) or Backward(m)
    return slots
""",
    solution="""\
from labkit.schedule import Backward, Forward

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
        "Draw three stages and room for two micro-batches. When is the first one back at stage 0? Only then "
        "may the third begin.",
        "Give every pass a time, then sort each stage's passes by it. Micro-batch m starts 2 slots after the "
        "one before it, or 2K slots after micro-batch m - room.",
        "Forward at start + stage, backward at start + 2K - 1 - stage, with start = 2K (m // room) + "
        "2 (m % room).",
    ),
    given=_room,
    answer=_executed,
    judge=_judged,
    limits=(NO_COLLECTIVE,),
)


def _slowest(seconds, counts):
    cuts = accumulate(counts, initial=0)
    return max(sum(seconds[a:b]) for a, b in pairwise(cuts))


def _best(seconds, stages):
    ends = range(1, len(seconds))
    parts = ((0, *cuts, len(seconds)) for cuts in combinations(ends, stages - 1))
    return min(_slowest(seconds, [b - a for a, b in pairwise(part)]) for part in parts)


def _even(layers, stages):
    return [len(part) for part in torch.arange(layers).tensor_split(stages)]


def _filled(seconds, stages):
    """Each stage is filled until it has its share of the time, which leaves too much to the last."""
    share, counts, time = sum(seconds) / stages, [0], 0
    for one in seconds:
        if counts[-1] and time + one > share and len(counts) < stages:
            counts, time = [*counts, 0], 0
        counts[-1], time = counts[-1] + 1, time + one
    return counts


def _layers(generator, size):
    """Times of layers for which neither equal numbers nor filling up to the mean is best."""
    while True:
        seconds = torch.randint(1, 10, (9,), generator=generator).tolist()
        best = _best(seconds, size)
        if best < min(_slowest(seconds, _even(9, size)), _slowest(seconds, _filled(seconds, size))):
            return [(seconds, size)] * size


def _balanced(answers: Answers) -> str:
    seconds, stages = answers.arguments[0]
    for rank, counts in enumerate(answers.found):
        whole = isinstance(counts, list) and all(isinstance(c, int) and c > 0 for c in counts)
        if not whole or len(counts) != stages or sum(counts) != len(seconds):
            return (
                f"rank {rank} is wrong: {stages} numbers were expected, 1 or more, with the sum "
                f"{len(seconds)}; it is {counts!r}"
            )
        slowest, best = _slowest(seconds, counts), _best(seconds, stages)
        if slowest > best:
            return (
                f"rank {rank} is wrong: with {counts} layers of {seconds} s the slowest stage takes "
                f"{slowest} s, and {best} s is possible"
            )
    return ""


BALANCE = Exercise(
    task="The slowest stage sets the pace, so cut the layers well. `seconds` holds the time of each layer. "
    "Return how many layers each of `stages` stages gets, in their order, so that the slowest stage is as "
    "fast as can be.",
    stub="""\
def balance(seconds, stages):
    ...  # your code: such as [3, 2, 2, 2] for nine layers and four stages
""",
    solution="""\
from itertools import combinations

def balance(seconds, stages):
    last, ways = len(seconds), []
    for cuts in combinations(range(1, last), stages - 1):
        ends = list(zip((0, *cuts), (*cuts, last)))
        slowest = max(sum(seconds[a:b]) for a, b in ends)
        ways.append((slowest, [b - a for a, b in ends]))
    return min(ways)[1]
""",
    why="A few layers have few ways to be cut: try them all. For hundreds of layers, ask instead whether "
    "stages of at most t seconds suffice, by filling one after the other, and halve the range of t.",
    hints=(
        "Stages are neighbouring layers: K - 1 cuts between them. How many ways are there to place them?",
        "itertools.combinations(range(1, len(seconds)), stages - 1) gives all cuts. Take those whose slowest "
        "stage is the fastest.",
    ),
    given=_layers,
    judge=_balanced,
    limits=(NO_COLLECTIVE,),
)

LESSON = Lesson(
    number="15",
    title="Fill the pipeline",
    predictions=(Prediction("idle_percent", "%"),),
    exercises=(PIPELINE_IN_ROOM, BALANCE),
    questions=(
        Question(
            "You take 1F1B in place of GPipe, with as many micro-batches. What gets smaller?",
            (
                Choice("the bubble", "It stays: both wait for the first micro-batch and for the last one."),
                Choice("the memory", "A stage stores at most K micro-batches, however many there are."),
                Choice("the gradient's error", "Both give the gradient of the whole batch."),
            ),
            right="b",
        ),
        Question(
            "Four stages. You cut the batch into 16 micro-batches in place of 8. The idle share",
            (
                Choice("falls from 27 % to 16 %", "3/11 becomes 3/19."),
                Choice("halves", "3/11 becomes 3/19: K - 1 is also in the denominator."),
                Choice(
                    "stays", "The time to fill and to drain is now a smaller part: passes are half as long."
                ),
            ),
            right="a",
        ),
        Question(
            "One of four stages takes twice as long as each other one. With very many micro-batches the idle "
            "share goes to",
            (
                Choice("0", "So says the formula, which takes stages as equal."),
                Choice("1/4", "That is one stage in four; but three of them idle for half of the time."),
                Choice("3/8", "Three stages work half of the time, one all of it: 2.5 of 4 are busy."),
            ),
            right="c",
        ),
    ),
)
