"""What a virtual cluster's network is: latency, bandwidth, and which messages share a link."""

from __future__ import annotations

from dataclasses import dataclass

GBIT = 1e9 / 8
"""Bytes per second of 1 Gbit/s."""


@dataclass(frozen=True)
class Network:
    """A message of n bytes takes alpha + n * beta, more where others share its links.

    Each group of `ranks_per_nic` ranks has one link to the network, and messages between two ranks of one
    group go by `inside`, if there is one, and never see the link. A link is as fast in both directions at
    once if `full_duplex`. All messages between links also share a `switch` of so many bytes per second; None
    is a switch that never holds anyone up. Where messages share a link, its bandwidth is shared max-min
    fairly (Bertsekas and Gallager, *Data Networks*, 6.5.2).

    >>> Network(alpha=50e-6, bandwidth=125e6).beta
    8e-09
    """

    alpha: float  # seconds
    bandwidth: float  # bytes per second
    ranks_per_nic: int = 1
    inside: Network | None = None
    full_duplex: bool = True
    switch: float | None = None
    gamma: float = 0.0  # seconds to add one received byte to one's own; 0 leaves it out
    name: str = ""
    source: str = ""

    @property
    def beta(self) -> float:
        """Seconds per byte."""
        return 1 / self.bandwidth

    @property
    def shared(self) -> bool:
        """Whether ranks can hold each other up on a link, even if each sends and receives one message."""
        return self.switch is not None or not self.full_duplex or self.ranks_per_nic > 1

    def route(self, source: int, to: int) -> tuple[float, tuple[tuple[str, int], ...]]:
        """Latency of a message, and the links that it takes."""
        here, there = source // self.ranks_per_nic, to // self.ranks_per_nic
        if here == there and self.inside:
            alpha, links = self.inside.route(source, to)
            return alpha, tuple(("inside " + link, number) for link, number in links)
        names = ("out", "in") if self.full_duplex else ("link", "link")
        links = (names[0], here), (names[1], there)
        return self.alpha, (*links, ("switch", 0)) if self.switch else links

    def capacity(self, link: str) -> float:
        """Bytes per second of a link that `route` names."""
        if link.startswith("inside "):
            return self.inside.capacity(link.removeprefix("inside "))
        return self.switch if link == "switch" else self.bandwidth


_RATE = "bandwidth: the line rate, so what a program sees is a few per cent less; "
_NCCL = "latency: NCCL's own model of one ring step in its LL protocol, hwLat in src/graph/tuning.cc"

ETHERNET_1G = Network(
    alpha=50e-6,
    bandwidth=1 * GBIT,
    name="1 Gbit/s Ethernet",
    source=_RATE + "IEEE 802.3ab. latency: our assumption for TCP through the kernel and one switch",
)
ETHERNET_10G = Network(
    alpha=20e-6,
    bandwidth=10 * GBIT,
    name="10 Gbit/s Ethernet",
    source=_RATE + "IEEE 802.3ae. latency: Hurwitz and Feng, Hot Interconnects 11, 2003: 20 us end to end",
)
INFINIBAND_HDR = Network(
    alpha=2.7e-6,
    bandwidth=200 * GBIT,
    name="InfiniBand HDR",
    source=_RATE
    + "NVIDIA ConnectX-6 user manual (which states under 0.6 us for the adapter alone). "
    + _NCCL,
)
INFINIBAND_NDR = Network(
    alpha=2.7e-6,
    bandwidth=400 * GBIT,
    name="InfiniBand NDR",
    source=_RATE + "NVIDIA ConnectX-7 user manual. " + _NCCL,
)
NVLINK_3 = Network(
    alpha=0.6e-6,
    bandwidth=300e9,
    name="NVLink 3",
    source=_RATE + "NVIDIA A100: 600 GB/s per GPU, the sum of both directions. " + _NCCL,
)
NVLINK_4 = Network(
    alpha=0.6e-6,
    bandwidth=450e9,
    name="NVLink 4",
    source=_RATE + "NVIDIA H100: 900 GB/s per GPU, the sum of both directions. " + _NCCL,
)
PRESETS = (ETHERNET_1G, ETHERNET_10G, INFINIBAND_HDR, INFINIBAND_NDR, NVLINK_3, NVLINK_4)
