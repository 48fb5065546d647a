"""Replicas that start equal and step alike: the first two functions that the learner of lesson 04 writes."""

from __future__ import annotations

import copy
from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import gradient, linear

PIXELS, HIDDEN, CLASSES = 6, 5, 3
PARAMETERS = 4
"""Tensors of the network: two layers with weight and bias."""


def network(generator: torch.Generator) -> torch.nn.Sequential:
    first, last = linear(generator, PIXELS, HIDDEN), linear(generator, HIDDEN, CLASSES)
    made = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    with torch.no_grad():
        for p in made.parameters():
            p /= 2
    return made


# The initial weights


def _replicas(generator: torch.Generator, size: int) -> Arguments:
    """A network per rank, other weights on each; batch normalisation has buffers beside its weights."""
    given = []
    for _ in range(size):
        norm = torch.nn.BatchNorm1d(HIDDEN)
        norm.running_mean += torch.randn(HIDDEN, generator=generator)
        norm.num_batches_tracked += int(torch.randint(1, 1000, (), generator=generator))
        given.append((torch.nn.Sequential(linear(generator, PIXELS, HIDDEN), norm),))
    return given


def _state(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.double().flatten() for value in network.state_dict().values()])


def _parameters_alone(arguments: Arguments) -> list[torch.Tensor]:
    """Rank 0's parameters, and the rank's own buffers."""
    mixed = [copy.deepcopy(network) for (network,) in arguments]
    for made in mixed:
        made.load_state_dict(dict(arguments[0][0].named_parameters()), strict=False)
    return [_state(made) for made in mixed]


def _mean_parameters(arguments: Arguments) -> list[torch.Tensor]:
    """The mean of all ranks' parameters, and the rank's own buffers."""
    mixed = [copy.deepcopy(network) for (network,) in arguments]
    every = [dict(network.named_parameters()) for (network,) in arguments]
    for made in mixed:
        made.load_state_dict({n: sum(p[n] for p in every) / len(every) for n in every[0]}, strict=False)
    return [_state(made) for made in mixed]


def _mean_state(arguments: Arguments) -> torch.Tensor:
    """The mean of all that a state_dict holds; a count of batches stays a whole number."""
    states = [network.state_dict() for (network,) in arguments]
    means = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
    return torch.cat([mean.to(states[0][n].dtype).double().flatten() for n, mean in means.items()])


MEAN = "This is the mean over the ranks. Take the weights of rank 0: broadcast them."


INITIAL_WEIGHTS = Exercise(
    task="Give every replica the weights of rank 0, in place. What `model.state_dict()` holds belongs to it: "
    "parameters, and buffers such as the running means of batch normalisation.",
    stub="""\
def my_sync_initial_weights(model):  # other weights on each rank
    ...  # your code
""",
    solution="""\
def my_sync_initial_weights(model):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
""",
    why="The tensors of a state_dict share their memory with the model, so a broadcast into them is a "
    "broadcast into the model. Buffers are no parameters, and an optimiser never moves them: who forgets "
    "them has replicas that train alike and predict differently.",
    hints=(
        "model.state_dict().values() are the model's own tensors: what is written into one is in the model.",
        "dist.broadcast(tensor, src=0) on every rank, for each of them.",
    ),
    given=_replicas,
    answer=lambda arguments, result: _state(arguments[0]),
    judge=compare(
        everywhere(lambda arguments: _state(arguments[0][0])),
        Mistake(
            "The parameters are rank 0's, the buffers are not: go through model.state_dict().values().",
            _parameters_alone,
        ),
        Mistake(
            "These are the rank's own weights: nothing has come from rank 0.",
            lambda arguments: [_state(made) for (made,) in arguments],
        ),
        Mistake(
            "These are the last rank's weights. Take those of rank 0: src=0.",
            everywhere(lambda arguments: _state(arguments[-1][0])),
        ),
        Mistake(MEAN, everywhere(_mean_state)),
        Mistake(MEAN, _mean_parameters),
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: len(arguments[0][0].state_dict()),
            "One broadcast for each tensor is enough.",
        ),
    ),
    becomes="sync_initial_weights",
    changes=("model",),
)


# The gradients


def _with_gradients(generator: torch.Generator, size: int) -> Arguments:
    made, given = network(generator), []
    for _ in range(size):
        given.append((copy.deepcopy(made),))
        for p in given[-1][0].parameters():
            p.grad = torch.randn(p.shape, generator=generator)
    return given


def _own(arguments: Arguments) -> list[torch.Tensor]:
    return [gradient(network) for (network,) in arguments]


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(_own(arguments))


def _divided_by(divisor: Callable[[int], int]) -> Values:
    return everywhere(lambda arguments: _sum(arguments) / divisor(len(arguments)))


GRADIENTS = Exercise(
    task="Replace the gradient of every parameter, `p.grad`, by its mean over all ranks.",
    stub="def my_sync_gradients(model):  # backward() has run: every parameter has its p.grad\n"
    "    ...  # your code\n",
    solution="""\
def my_sync_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
""",
    why="all_reduce leaves the sum in p.grad, on every rank; the division makes it the mean of lesson 03. "
    "The optimiser reads p.grad and knows nothing of ranks.",
    hints=(
        "Per parameter one sum over all ranks, then one division. Which collective does that?",
        "dist.all_reduce(p.grad) works in place; dist.get_world_size() says by what to divide.",
    ),
    given=_with_gradients,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=compare(
        _divided_by(lambda size: size),
        Mistake("This is the sum. Divide it by the number of ranks.", everywhere(_sum)),
        Mistake(
            "This is the sum divided by 4. Divide it by the number of ranks, once: dist.get_world_size().",
            _divided_by(lambda size: 4),
        ),
        Mistake(
            "The rank's own gradients are still in p.grad. What all_reduce returned into a new tensor "
            "must be copied back.",
            _own,
        ),
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: PARAMETERS,
            "One all_reduce for each parameter is enough, and one for all of them is possible.",
        ),
    ),
    becomes="sync_gradients",
)
