"""What the lessons build, one file each, under the name that the lesson gave it."""

from labkit.algorithms.naive import all_reduce_naive
from labkit.algorithms.ping_pong import fit_alpha_beta, ping_pong
from labkit.algorithms.reduce_broadcast import all_reduce_reduce_broadcast, broadcast_from, reduce_to

__all__ = [
    "all_reduce_naive",
    "all_reduce_reduce_broadcast",
    "broadcast_from",
    "fit_alpha_beta",
    "ping_pong",
    "reduce_to",
]
