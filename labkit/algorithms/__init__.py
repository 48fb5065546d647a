"""What the lessons build, one topic per file, under the name that the lesson gave it."""

from labkit.algorithms.gradients import distance, gradient, mean_over_ranks
from labkit.algorithms.naive import all_reduce_naive
from labkit.algorithms.ping_pong import fit_alpha_beta, ping_pong
from labkit.algorithms.reduce_broadcast import all_reduce_reduce_broadcast, broadcast_from, reduce_to
from labkit.algorithms.shard import shard
from labkit.algorithms.synchronous_sgd import in_step, sync_gradients, sync_initial_weights, train_epoch

__all__ = [
    "all_reduce_naive",
    "all_reduce_reduce_broadcast",
    "broadcast_from",
    "distance",
    "fit_alpha_beta",
    "gradient",
    "in_step",
    "mean_over_ranks",
    "ping_pong",
    "reduce_to",
    "shard",
    "sync_gradients",
    "sync_initial_weights",
    "train_epoch",
]
