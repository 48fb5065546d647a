"""Lesson 08, Keep the weights on a server: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, questions
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.versions import SERVE_ASYNCHRONOUS


def _weights_and_gradients(generator: torch.Generator, size: int) -> Arguments:
    n = 4 + int(torch.randint(60, (), generator=generator))
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


def _stepped(
    divisor: Callable[[int], int] = lambda size: size - 1, sign: int = -1
) -> Callable[[Arguments], torch.Tensor]:
    """The weights of rank 0 after the step, with another divisor or the other sign if asked."""

    def value(arguments: Arguments) -> torch.Tensor:
        weights, *gradients = (x for (x,) in arguments)
        return weights + sign * sum(gradients) / divisor(len(arguments))

    return value


def _own_gradient_alone(arguments: Arguments) -> list[torch.Tensor]:
    """Of whoever came first: the weights with no gradient but its own."""
    weights, workers = arguments[0][0], len(arguments) - 1
    return [weights, *(weights - gradient / workers for (gradient,) in arguments[1:])]


STEP_ON_SERVER = Exercise(
    task="One synchronous step without headers. Rank 0 is the server: its `x` are the weights, the `x` of "
    "every other rank is a gradient. All shall return the weights minus the mean of the workers' gradients. "
    "With one worker that is right. With more it runs without an error, and the workers no longer have the "
    "same weights. **Find the bug and mend it.** Budget: one push and one answer for each worker, no "
    "collective. Leave `x` as it is.",
    stub="""\
def step_on_server(x):  # weights on rank 0, a gradient on the others
    weights, gradient = x.clone(), torch.empty_like(x)
    if rank > 0:
        dist.send(x, dst=0)
        dist.recv(weights, src=0)
        return weights
    for _ in range(world_size - 1):
        worker = dist.recv(gradient)  # no src: whoever comes first
        weights -= gradient / (world_size - 1)
        dist.send(weights, dst=worker)
    return weights
""",
    solution="""\
def step_on_server(x):
    weights, gradient = x.clone(), torch.empty_like(x)
    if rank > 0:
        dist.send(x, dst=0)
        dist.recv(weights, src=0)
        return weights
    for _ in range(world_size - 1):
        dist.recv(gradient)  # no src: whoever comes first
        weights -= gradient / (world_size - 1)
    for worker in range(1, world_size):
        dist.send(weights, dst=worker)
    return weights
""",
    why="The server answered each worker as soon as its own gradient had come, so the first one got weights "
    "without the gradients of the others. A synchronous server must have all of them before it answers "
    "anybody.",
    hints=(
        "Two workers: which gradients are in the weights that the first one gets back? And the second one?",
        "One loop does two things. Let the first loop end before anybody is answered.",
    ),
    given=_weights_and_gradients,
    judge=compare(
        everywhere(_stepped()),
        Mistake(
            "You divide by the number of ranks, but the server has no gradient: divide by world_size - 1.",
            everywhere(_stepped(lambda size: size)),
        ),
        Mistake(
            "You subtract the sum of the gradients, not their mean.", everywhere(_stepped(lambda size: 1))
        ),
        Mistake("You add the mean. A step goes against the gradient.", everywhere(_stepped(sign=1))),
        Mistake("These are the weights before the step.", everywhere(lambda arguments: arguments[0][0])),
        Mistake(
            "A worker was answered before all gradients had come: only its own is in these weights.",
            _own_gradient_alone,
        ),
        Mistake(
            "A worker returns what it was given. It must receive the new weights, into a new tensor.",
            lambda arguments: [None, *(x for (x,) in arguments[1:])],
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers talk in messages."),
        Limit(
            "messages",
            lambda arguments: 2 * (len(arguments) - 1),
            "Each worker pushes once and is answered once.",
        ),
    ),
)

LESSON = Lesson(
    number="08",
    title="Keep the weights on a server",
    predictions=(Prediction("server_rate", "mini-batches per second"),),
    exercises=(SERVE_ASYNCHRONOUS, STEP_ON_SERVER),
    questions=questions("08"),
)
