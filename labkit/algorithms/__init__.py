"""What the lessons built, under the name that the lesson gave it."""

from labkit.algorithms.gradients import distance, gradient, mean_over_ranks
from labkit.algorithms.shard import shard
from labkit.algorithms.synchronous_sgd import in_step, sync_gradients, sync_initial_weights, train_epoch

__all__ = [
    "distance",
    "gradient",
    "in_step",
    "mean_over_ranks",
    "shard",
    "sync_gradients",
    "sync_initial_weights",
    "train_epoch",
]
