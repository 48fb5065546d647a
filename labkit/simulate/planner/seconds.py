"""How long a step takes, part by part, from closed forms. Communication is not hidden behind computing."""

from __future__ import annotations

from labkit.simulate.cost import Cost, parameter_server_cost, ring_cost
from labkit.simulate.planner.cluster import Cluster
from labkit.simulate.planner.configuration import SERVERS, Configuration
from labkit.simulate.planner.memory import rank_parameters
from labkit.simulate.planner.model import Model


def step_seconds(
    model: Model, cluster: Cluster, configuration: Configuration, batch: int
) -> dict[str, float]:
    """Seconds of a step of `batch` samples, by what they are spent on. Built in lesson 25."""
    c, of_layer = configuration, configuration.microbatch * (3 + configuration.recompute)
    microbatches, layers = c.microbatches(batch), model.layers / c.pipeline
    layer = of_layer * _forward_seconds(model, cluster, c.tensor)
    head = 3 * c.microbatch * _products(cluster, model.head_flops) / c.tensor
    sums = layers * (2 + c.recompute) * model.sums * _sum_seconds(model, cluster, c)
    computing = microbatches * (layers * layer + head)
    slot = layers * layer + sums
    return {
        "computing": computing,
        "sums inside layers": microbatches * sums,
        "idle in the pipeline": (c.pipeline - 1) / c.pieces * slot,
        "messages in the pipeline": _waits(c, microbatches) * _message_seconds(model, cluster, c),
        "replicas": _agreement(model, cluster, c, microbatches, computing),
    }


def _products(cluster: Cluster, flops: float) -> float:
    return flops / (cluster.flops * cluster.efficiency)


def _forward_seconds(model: Model, cluster: Cluster, tensor: int) -> float:
    """A layer's pass forward, of a sample: its products, then what is stored, written once and read once."""
    return _products(cluster, model.flops) / tensor + 2 * model.stored_by(tensor) / cluster.bandwidth


def _sum_seconds(model: Model, cluster: Cluster, c: Configuration) -> float:
    """One all-reduce inside a layer, of what a microbatch hands on."""
    net = cluster.link(c.tensor)
    return ring_cost(c.tensor).seconds(c.microbatch * model.handed * model.itemsize, net.alpha, net.beta)


def _message_seconds(model: Model, cluster: Cluster, c: Configuration) -> float:
    """Between two stages; ranks that have parts of a layer send a part each."""
    net = cluster.link(c.pipeline, c.tensor * c.data)
    return net.alpha + c.microbatch * model.handed * model.itemsize / c.tensor * net.beta


def _waits(c: Configuration, microbatches: int) -> float:
    """Messages that a step waits for: there and back, once for the pipeline, then for each microbatch.

    A stage has as many microbatches under way as 1F1B lets it, so each waits for a share of its way alone.
    """
    there_and_back = 2 * (c.pipeline - 1)
    return there_and_back * (1 + (microbatches - 1) * c.pieces / c.pipeline)


def _agreement(
    model: Model, cluster: Cluster, c: Configuration, microbatches: int, computing: float
) -> float:
    net = cluster.link(c.devices if c.agree in SERVERS else c.data, c.tensor)
    nbytes = rank_parameters(model, c) * model.itemsize
    if c.agree == "server":
        return parameter_server_cost(c.data).seconds(nbytes, net.alpha, net.beta)
    if c.agree == "asynchronous":  # its own push and pull, or the server's link if that is busy all the time
        alone = 2 * (net.alpha + nbytes * net.beta)
        return max(alone, c.data * nbytes * net.beta - computing)
    ring = ring_cost(c.data)
    if c.agree == "sharded":  # gathered forward and backward, scattered: three halves, layer by layer
        gathered = model.matrices * model.layers / c.pipeline
        halves = Cost(1.5 * ring.latencies * gathered, 1.5 * ring.volume)
        return microbatches * halves.seconds(nbytes, net.alpha, net.beta)
    return ring.seconds(nbytes, net.alpha, net.beta) / (c.every if c.agree == "local steps" else 1)
