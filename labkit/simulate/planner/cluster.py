"""The devices that a planner may use, and what they must do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from labkit.simulate.network import INFINIBAND_HDR, NVLINK_3, Network


@dataclass(frozen=True)
class Cluster:
    """Equal devices; those of a host share the network's link, and reach each other by `network.inside`."""

    devices: int
    flops: float  # operations per second of a device, by its data sheet
    memory: float  # bytes of a device
    network: Network
    efficiency: float = 1.0  # the share of `flops` that products of matrices reach
    bandwidth: float = inf  # bytes per second between a device and its memory
    name: str = ""

    def link(self, ranks: int, stride: int = 1) -> Network:
        """What a message sees between neighbours in a group of so many ranks, each `stride` from the next.

        All groups communicate at the same time: those that pass a host's link have equal shares of it.

        >>> a100(64).link(8).name, a100(64).link(8, stride=8).bandwidth
        ('NVLink 3', 25000000000.0)
        """
        net = self.network
        if net.inside and ranks * stride <= net.ranks_per_nic:
            return net.inside
        return replace(net, bandwidth=net.bandwidth / min(stride, net.ranks_per_nic))


@dataclass(frozen=True)
class Budget:
    """What a plan must keep to: `batch` samples a step; and if given, seconds a step, bytes of a device.

    `exact`: only what gives the weights that one process would get.
    """

    batch: int
    seconds: float = inf
    memory: float = inf
    exact: bool = True


def a100(devices: int, memory: float = 80e9) -> Cluster:
    """NVIDIA's A100 in hosts of eight, each with NVLink to the others and one port of InfiniBand HDR.

    Data sheet: 312e12 operations in 16 bits a second, 2.0e12 bytes a second to 80 GB of memory. The
    efficiency is the one number that is fitted: to a run of Megatron-LM on one device of 40 GB, which moves
    1.555e12 bytes a second, with no communication (`ONE_DEVICE` in `published`).
    """
    host = replace(INFINIBAND_HDR, bandwidth=8 * INFINIBAND_HDR.bandwidth, ranks_per_nic=8, inside=NVLINK_3)
    return Cluster(devices, 312e12, memory, host, efficiency=0.65, bandwidth=2.0e12, name="A100")
