"""Published runs: their configurations, and what was measured.

D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC
2021, arXiv 2104.04473, table 1; the sizes of microbatches and pieces from the script that reproduces it,
NVIDIA's Megatron-LM, examples/sc21/run_table_1.sh. All recompute activations, on A100s of 80 GB.
"""

from __future__ import annotations

from dataclasses import dataclass

from labkit.simulate.planner.configuration import Configuration
from labkit.simulate.planner.model import Model


@dataclass(frozen=True)
class Run:
    """A run, and the operations per second that each device reached, recomputed ones included."""

    model: Model
    configuration: Configuration
    batch: int
    flops: float

    def seconds(self) -> float:
        """Of a step, which follow from the operations per second."""
        done = self.batch * self.model.training_flops(self.configuration.recompute)
        return done / (self.configuration.devices * self.flops)


_ROWS = (
    # billions, layers, hidden, heads, GPUs, tensor, pipeline, microbatch, pieces, batch, 1e12 a second
    (1.7, 24, 2304, 24, 32, 1, 1, 16, 1, 512, 137),
    (3.6, 30, 3072, 32, 64, 2, 1, 16, 1, 512, 138),
    (7.5, 36, 4096, 32, 128, 4, 1, 16, 1, 512, 142),
    (18.4, 40, 6144, 48, 256, 8, 1, 8, 1, 1024, 135),
    (39.1, 48, 8192, 64, 512, 8, 2, 4, 1, 1536, 138),
    (76.1, 60, 10240, 80, 1024, 8, 4, 2, 3, 1792, 140),
    (145.6, 80, 12288, 96, 1536, 8, 8, 2, 2, 2304, 148),
    (310.1, 96, 16384, 128, 1920, 8, 16, 1, 2, 2160, 155),
    (529.6, 105, 20480, 128, 2520, 8, 35, 1, 3, 2520, 163),
    (1008.0, 128, 25600, 160, 3072, 8, 64, 1, 1, 3072, 163),
)

MEGATRON = tuple(
    Run(
        Model.transformer(layers, hidden, heads, name=f"{billions:g} B"),
        Configuration(gpus // (tensor * pipeline), tensor, pipeline, microbatch, pieces, recompute=True),
        batch,
        measured * 1e12,
    )
    for billions, layers, hidden, heads, gpus, tensor, pipeline, microbatch, pieces, batch, measured in _ROWS
)

ONE_DEVICE = Run(
    Model.transformer(24, 1920, 15, sequence=1024, name="1.16 B"),
    Configuration(microbatch=16, recompute=True),
    batch=16,
    flops=149.8e12,
)
"""Megatron-LM, images/tables.tex and README.md of September 2020: 1.076 s a step on one A100 of 40 GB."""
