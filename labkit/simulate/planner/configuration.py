"""One way to use so many devices: how many replicas, how each is cut, how replicas agree."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.simulate.planner.model import Model

EXACT = ("synchronous", "server", "stage 1", "sharded")
"""Ways to agree that give the weights of one process."""
SERVERS = ("server", "asynchronous")
"""Ways that take one rank for the weights."""
WAYS = (*EXACT, "asynchronous", "local steps")


@dataclass(frozen=True)
class Configuration:
    """`data` replicas, each of `pipeline` stages of layers, which are cut into `tensor` parts.

    `agree`, how replicas do: "synchronous" (an all-reduce of the gradients), "server", "stage 1" (each keeps
    a part of the optimiser's state), "sharded" (of everything, ZeRO's stage 3), "asynchronous", "local steps"
    (the mean of the weights every `every` steps).

    >>> print(Configuration(data=2, tensor=4, microbatch=1))
    data 2 x tensor 4, microbatch 1
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    microbatch: int = 1
    pieces: int = 1  # of the model on each rank: interleaved 1F1B
    recompute: bool = False  # activations, from the input of each layer
    agree: str = "synchronous"
    every: int = 4

    @property
    def devices(self) -> int:
        """A server takes one more."""
        return self.data * self.tensor * self.pipeline + (self.agree in SERVERS)

    @property
    def strategy(self) -> str:
        """The name that the lessons gave it."""
        cut = {"tensor": self.tensor, "pipeline": self.pipeline, self.agree: self.data}
        names = [name for name, ranks in cut.items() if ranks > 1 or name in SERVERS]
        return "hybrid" if len(names) > 1 else names[0] if names else "single"

    def microbatches(self, batch: int) -> int:
        """How many each replica takes one after another."""
        return batch // (self.data * self.microbatch)

    def impossible(self, model: Model, batch: int) -> str:
        """Why it cannot be, or nothing."""
        if model.parts % self.tensor:
            return f"{model.parts} parts of a layer are not shared by {self.tensor} ranks alike"
        if model.layers % (self.pipeline * self.pieces):
            return f"{model.layers} layers make no {self.pipeline * self.pieces} equal stages"
        if batch % (self.data * self.microbatch):
            return f"{batch:,} samples are not {self.data:,} x equally many microbatches of {self.microbatch}"
        if self.pieces > 1 and self.microbatches(batch) % self.pipeline:
            return f"{self.microbatches(batch)} microbatches do not fill groups of {self.pipeline}"
        return ""

    def __str__(self) -> str:
        axes = {"data": self.data, "tensor": self.tensor, "pipeline": self.pipeline}
        cut = " x ".join(f"{axis} {ranks:,}" for axis, ranks in axes.items() if ranks > 1)
        said = [cut or "single"]
        said += [self.agree] if self.data > 1 and self.agree != "synchronous" else []
        said += [f"microbatch {self.microbatch}"]
        said += [f"{self.pieces} pieces"] if self.pieces > 1 else []
        return ", ".join(said + ["recompute"] * self.recompute)
