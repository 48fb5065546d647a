"""Predicted memory: that of ZeRO's paper, and of schedules and layers that were counted elsewhere."""

import pytest

from labkit.algorithms import interleaved, one_forward_one_backward
from labkit.schedule import stored
from labkit.simulate.planner import Configuration, Model
from labkit.simulate.planner.memory import rank_memory

STATE = "weights", "gradients", "optimizer"
GPT = Model.transformer(layers=24, hidden=2304, heads=24)


def memory(batch=48, model=GPT, **sizes):
    return rank_memory(model, Configuration(**sizes), batch)


@pytest.mark.parametrize("agree, published", [("synchronous", 120), ("stage 1", 31.4), ("sharded", 1.9)])
def test_the_state_is_that_of_zero(agree, published):
    """S. Rajbhandari et al., arXiv 1910.02054, figure 1."""
    model = Model(layers=1, parameters=7.5e9, flops=0, handed=0, stored=0)
    found = memory(64, model, data=64, agree=agree)
    assert sum(found[part] for part in STATE) / 1e9 == pytest.approx(published, abs=0.05)


def test_a_cut_model_has_its_state_in_parts():
    whole, cut = memory(), memory(tensor=4, pipeline=2)
    for part in STATE:
        assert whole[part] / 8 < cut[part] < whole[part] / 7  # the first stage has the embedding, too


SCHEDULES = (2, 1, 1), (4, 8, 1), (4, 2, 1), (4, 8, 2), (3, 6, 2)


@pytest.mark.parametrize("stages, microbatches, pieces", SCHEDULES)
def test_as_many_activations_are_kept_as_the_schedule_stores(stages, microbatches, pieces):
    slots = (
        interleaved(stages, microbatches, pieces)
        if pieces > 1
        else one_forward_one_backward(stages, microbatches)
    )
    most = max(stored(slots)[0]) / pieces  # a piece is a part of the stage
    found = memory(microbatches, pipeline=stages, pieces=pieces)["activations"]
    assert found == pytest.approx(most * GPT.layers / stages * GPT.stored)


def test_recomputing_keeps_the_inputs_of_layers_and_one_layer():
    assert memory(microbatch=2, recompute=True)["activations"] == 2 * (24 * 2 * GPT.handed + GPT.stored)
    assert memory(microbatch=2)["activations"] == 2 * 24 * GPT.stored


def test_parts_of_a_layer_store_what_is_published():
    """V. Korthikanti et al., arXiv 2205.05198, equation 2: sbh (10 + 24 / t + 5 as / ht)."""
    s, h, a, t = 2048, 2304, 24, 8
    assert GPT.stored_by(t) == pytest.approx(s * h * (10 + 24 / t + 5 * a * s / (h * t)))
