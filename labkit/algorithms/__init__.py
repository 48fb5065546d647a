"""What the lessons build, one topic per file, under the name that the lesson gave it.

data               data sets that need no download
ping_pong          what a message costs, fitted to alpha + n * beta
naive              all-reduce with nothing but send and recv
reduce_broadcast   all-reduce by way of one rank
gradients          one rank's gradient, and the mean over all ranks
shard              a data set split over the ranks
synchronous_sgd    replicas that start equal and stay equal
ring               all-reduce in a ring
tree               all-reduce in a binomial tree
halving_doubling   all-reduce by recursive halving, then doubling
parameter_server   weights on servers, which workers pull and push to
asynchronous_sgd   weights on rank 0, updated on arrival
gossip             averages with no server, and nobody waits
backup_workers     synchronous SGD that does not wait for the last ones
layers             a network cut by layers
branches           independent branches of a network side by side
activations        how many bytes autograd stores for the backward pass
memory             how many bytes of tensors are alive
sharded_state      weights, gradients and optimiser state of which each rank keeps a part
tensor_parallel    a network cut inside its layers
mesh               data and tensor parallelism at once, on a device mesh
pipeline           pipeline schedules, and what a rank does in its slots
smaller_bubbles    pipeline schedules that wait less
ring_attention     attention over a sequence that is split over ranks
experts            a mixture of experts, one on each rank
serving            replicas behind a queue that makes batches of requests
decoding           a model that writes token by token, heads split over ranks
"""

from labkit.algorithms.asynchronous_sgd import send_weights, serve, serve_in_step, work
from labkit.algorithms.backup_workers import serve_first
from labkit.algorithms.branches import backward_branches, forward_branches
from labkit.algorithms.decoding import decode_step
from labkit.algorithms.experts import send_to_experts, within_capacity
from labkit.algorithms.gossip import gossip, mix
from labkit.algorithms.gradients import distance, gradient, mean_over_ranks
from labkit.algorithms.halving_doubling import (
    all_reduce_halving_doubling,
    halving_doubling,
    halving_doubling_rounds,
)
from labkit.algorithms.layers import backward_through, forward_through, kept_for_backward, layers_of
from labkit.algorithms.mesh import SplitBlock, SumOneWay, placement_seconds, summed, sync_on_mesh
from labkit.algorithms.naive import all_reduce_naive, naive
from labkit.algorithms.parameter_server import finish, hold, pull, push, serve_asynchronous, serve_synchronous
from labkit.algorithms.ping_pong import fit_alpha_beta, ping_pong
from labkit.algorithms.pipeline import (
    backward_pass,
    bubble,
    forward_pass,
    gpipe,
    idle_share,
    one_forward_one_backward,
    run_pipeline,
)
from labkit.algorithms.reduce_broadcast import all_reduce_reduce_broadcast, broadcast_from, reduce_to
from labkit.algorithms.ring import all_reduce_ring, ring, ring_rounds
from labkit.algorithms.ring_attention import attend, merge, ring_attention
from labkit.algorithms.serving import answer_batches, close_batch, serve_requests
from labkit.algorithms.shard import shard
from labkit.algorithms.sharded_state import Sharded, gathered, sharded_backward, sharded_step
from labkit.algorithms.smaller_bubbles import interleaved, zero_bubble
from labkit.algorithms.synchronous_sgd import in_step, sync_gradients, sync_initial_weights, train_epoch
from labkit.algorithms.tensor_parallel import CopyToRanks, SumOverRanks, TensorParallel, part_of
from labkit.algorithms.tree import all_reduce_tree, tree, tree_rounds

__all__ = [
    "CopyToRanks",
    "Sharded",
    "SplitBlock",
    "SumOneWay",
    "SumOverRanks",
    "TensorParallel",
    "all_reduce_halving_doubling",
    "all_reduce_naive",
    "all_reduce_reduce_broadcast",
    "all_reduce_ring",
    "all_reduce_tree",
    "answer_batches",
    "attend",
    "backward_branches",
    "backward_pass",
    "backward_through",
    "broadcast_from",
    "bubble",
    "close_batch",
    "decode_step",
    "distance",
    "finish",
    "fit_alpha_beta",
    "forward_branches",
    "forward_pass",
    "forward_through",
    "gathered",
    "gossip",
    "gpipe",
    "gradient",
    "halving_doubling",
    "halving_doubling_rounds",
    "hold",
    "idle_share",
    "in_step",
    "interleaved",
    "kept_for_backward",
    "layers_of",
    "mean_over_ranks",
    "merge",
    "mix",
    "naive",
    "one_forward_one_backward",
    "part_of",
    "ping_pong",
    "placement_seconds",
    "pull",
    "push",
    "reduce_to",
    "ring",
    "ring_attention",
    "ring_rounds",
    "run_pipeline",
    "send_to_experts",
    "send_weights",
    "serve",
    "serve_asynchronous",
    "serve_first",
    "serve_in_step",
    "serve_requests",
    "serve_synchronous",
    "shard",
    "sharded_backward",
    "sharded_step",
    "summed",
    "sync_gradients",
    "sync_initial_weights",
    "sync_on_mesh",
    "train_epoch",
    "tree",
    "tree_rounds",
    "within_capacity",
    "work",
    "zero_bubble",
]
