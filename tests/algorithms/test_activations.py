"""What autograd stores is counted in bytes: once where memory is shared, and no longer than it is stored."""

import torch
from torch.nn import Linear, Sequential, Tanh

from labkit.algorithms import kept_for_backward
from labkit.algorithms.activations import Activations

BLOCK = 6 * 5 * 8  # bytes of 6 samples, 5 wide, in float64


def network():
    return Sequential(Linear(5, 5), Tanh(), Linear(5, 5), Tanh()).double()


def test_input_and_the_output_of_every_layer_are_stored_once():
    model, x = network(), torch.randn(6, 5, dtype=torch.float64)
    with Activations(model) as stored:
        output = model(x)
    assert stored.now == stored.peak == 3 * BLOCK
    output.sum().backward()
    del output
    assert (stored.now, stored.peak) == (0, 3 * BLOCK)


def test_after_one_forward_pass_it_is_the_measure_of_lesson_13():
    model, x = network(), torch.randn(6, 5, dtype=torch.float64)
    with Activations(model) as stored:
        output = model(x)
    assert kept_for_backward(model, lambda: model(x))[1] == stored.now
    del output


def test_of_a_view_counts_what_it_shows():
    model, x = network(), torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    whole = x * 1.0
    with Activations(model) as stored:
        output = whole[:2].square()
    assert stored.now == BLOCK / 3
    assert kept_for_backward(model, lambda: whole[:2].square())[1] == BLOCK
    del output


def test_each_micro_batch_adds_its_own_until_its_backward():
    model, outputs = network(), []
    stored = Activations(model)
    for n in range(1, 5):
        with stored:
            outputs.append(model(torch.randn(6, 5, dtype=torch.float64)))
        assert stored.now == 3 * n * BLOCK
    while outputs:
        outputs.pop().sum().backward()
        assert stored.now == 3 * len(outputs) * BLOCK
    assert stored.peak == 12 * BLOCK


def test_gradients_are_not_changed():
    model, x = network(), torch.randn(6, 5, dtype=torch.float64)
    expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    with Activations(model):
        found = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    assert all(map(torch.equal, found, expected))


def test_what_is_computed_outside_does_not_count():
    model = network()
    with Activations(model) as stored:
        pass
    model(torch.ones(6, 5, dtype=torch.float64)).sum().backward()
    assert stored.peak == 0
