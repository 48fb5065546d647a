"""How many bytes the fullest rank keeps, part by part."""

from __future__ import annotations

from labkit.simulate.planner.configuration import Configuration
from labkit.simulate.planner.model import Model


def rank_parameters(model: Model, configuration: Configuration) -> float:
    """Parameters of the model that the fullest rank of a replica works on."""
    c = configuration
    return (model.layers / c.pipeline * model.parameters + model.head_parameters) / c.tensor


def rank_memory(model: Model, configuration: Configuration, batch: int) -> dict[str, float]:
    """Bytes at the peak of a step of `batch` samples, by what they hold. Built in lesson 25."""
    c, parameters = configuration, rank_parameters(model, configuration)
    all_parts = c.data if c.agree == "sharded" else 1
    optimizer_parts = c.data if c.agree in ("stage 1", "sharded") else 1
    at_work = 2 * model.itemsize * model.parameters / c.tensor if all_parts > 1 else 0.0
    return {
        "weights": parameters * model.itemsize / all_parts,
        "gradients": parameters * model.itemsize / all_parts,
        "optimizer": parameters * model.optimizer / optimizer_parts,
        "layer at work": at_work,
        "activations": _activations(model, c, c.microbatches(batch)),
    }


def _activations(model: Model, c: Configuration, microbatches: int) -> float:
    """Of all microbatches that the first stage has under way."""
    under_way = min(microbatches, c.pipeline + (c.pipeline - 1) / c.pieces * (c.pieces > 1))
    layer = c.microbatch * model.stored_by(c.tensor)
    layers = under_way * model.layers / c.pipeline
    if not c.recompute:
        return layers * layer
    return layers * c.microbatch * model.handed * model.itemsize + layer
