"""A network as a planner sees it: what a layer computes, keeps and hands on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A network of equal layers with a head behind the last. What depends on the batch is per sample.

    A pass backward takes twice the operations of a pass forward. Tensor parallelism cuts a layer into parts
    that need `sums` all-reduces of what it hands on, forward, and as many backward.

    >>> gpt = Model.transformer(layers=96, hidden=12288, heads=96)
    >>> f"{gpt.size / 1e9:.1f} billion parameters"
    '174.6 billion parameters'
    """

    layers: int
    parameters: float  # of a layer
    flops: float  # of a layer's pass forward
    handed: float  # numbers that a layer hands to the next
    stored: float  # bytes that a layer stores for its pass backward
    whole: float = 0.0  # of these, what each rank stores that has a part of the layer
    parts: int = 1  # a layer can be cut into as many parts, or a divisor of that
    sums: int = 2
    matrices: int = 1  # of a layer, each gathered by itself where all state is sharded
    head_parameters: float = 0.0
    head_flops: float = 0.0
    itemsize: int = 2  # bytes of a weight, a gradient, a number handed on
    optimizer: int = 12  # bytes that the optimiser keeps for a parameter, master weights included
    name: str = ""

    @classmethod
    def transformer(
        cls,
        layers: int,
        hidden: int,
        heads: int,
        sequence: int = 2048,
        vocabulary: int = 51200,
        name: str = "",
    ) -> Model:
        """A GPT in mixed precision with Adam; a sample is a sequence.

        Parameters and operations: D. Narayanan et al., "Efficient large-scale language model training on GPU
        clusters using Megatron-LM", SC 2021, arXiv 2104.04473, section 5.1. What is stored: V. Korthikanti et
        al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198, section 4.
        """
        tokens = sequence * hidden
        return cls(
            layers,
            parameters=12 * hidden**2 + 13 * hidden,
            flops=24 * tokens * hidden + 4 * sequence * tokens,
            handed=tokens,
            stored=34 * tokens + 5 * heads * sequence**2,
            whole=10 * tokens,
            parts=heads,
            head_parameters=(vocabulary + sequence) * hidden,
            head_flops=2 * tokens * vocabulary,
            name=name or f"{layers} layers of {hidden:,}",
        )

    @property
    def size(self) -> float:
        """How many parameters it has."""
        return self.layers * self.parameters + self.head_parameters

    def stored_by(self, tensor: int) -> float:
        """Bytes that a rank stores of a layer that is cut into so many parts."""
        return self.whole + (self.stored - self.whole) / tensor

    def training_flops(self, recompute: bool = False) -> float:
        """Operations of a training step, of a sample: three passes forward, four with recomputation."""
        return (3 + recompute) * self.layers * self.flops + 3 * self.head_flops
