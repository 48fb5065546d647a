"""One call of one verb: what was asked, of whom, by which line; and when, if a trace was on."""

from collections.abc import Mapping, Sequence

import torch

from labkit import LabError
from labkit.mpi.record.position import Position, position


class Call:
    """What one rank asked for. Every operation of every group has exactly one.

    `ranks` are world ranks: the members of the group for a collective, the one partner for a
    message, all others for a receive from any source. `root` is a world rank or None. `shapes` are those of
    the tensors: of one tensor its shape, else a list. `same` is what all ranks must agree on besides verb,
    dtype, operation and root: as a rule the shapes. `layout` is that of sparse tensors. `where` is the
    Position in the user's code, once somebody had it located.

    `by_torch`: torch's own code called, asynchronously, and knows whether it waits.

    The rest is set by `labkit.mpi.record` alone, in nanoseconds of its clock; what has not happened is None.
    `posted` is when the call was handed over, if its caller can do something else then. `waited` is the
    moment from which the main thread did nothing but wait for it: its start where that came at once. `source`
    is the world rank from which a receive got its message.
    """

    sequence: int | None = None
    where: Position | None = None
    start: int | None = None
    posted: int | None = None
    waited: int | None = None
    end: int | None = None
    source: int | None = None
    failed = by_torch = False
    layout = ""

    def __init__(
        self,
        verb: str,
        group: str,
        ranks: Sequence[int],
        tensors: Sequence[torch.Tensor] = (),
        *,
        root: int | None = None,
        tag: int | None = None,
        op: str | None = None,
        same: object = None,
    ) -> None:
        self.verb, self.group, self.ranks = verb, group, ranks
        self.root, self.tag, self.op = root, tag, op
        if len(tensors) == 1:  # a list of it would be one more thing to make, and to keep in a trace
            (tensor,) = tensors
            self.dtype, self.shapes, dense = tensor.dtype, tensor.shape, tensor.layout is torch.strided
            self.bytes = tensor.nbytes if dense else 0
        else:
            dense = all([t.layout is torch.strided for t in tensors])
            self.bytes = sum([t.nbytes for t in tensors]) if dense else 0
            self.dtype = tensors[0].dtype if tensors else None
            self.shapes = [t.shape for t in tensors]
        self.same = self.shapes if same is None else same
        if not dense:
            self._describe_sparse(tensors)

    def _describe_sparse(self, tensors: Sequence[torch.Tensor]) -> None:
        """Name the layout too, where it is not plain; LabError unless the tensors can be added up."""
        layouts = ", ".join(sorted({str(t.layout).removeprefix("torch.") for t in tensors}))
        if self.verb != "all_reduce" or any(
            t.layout not in (torch.strided, torch.sparse_coo) for t in tensors
        ):
            fix = "call .to_dense() first; all_reduce takes one of layout sparse_coo as it is"
            raise LabError(f"{self.verb} of a sparse tensor", f"torch.{layouts}", fix)
        if self.op not in ("SUM", "AVG"):
            fix = "use one of these, or call .to_dense() first"
            raise LabError(f"all_reduce of a sparse tensor with {self.op}", "SUM and AVG are possible", fix)
        self.bytes = sum(
            t._indices().nbytes + t._values().nbytes if t.is_sparse else t.nbytes for t in tensors
        )
        self.layout, self.same = layouts, (layouts, self.shapes)

    def locate(self) -> None:
        """Find the user's line that is behind this call; works only below that line."""
        if self.where is None:
            self.where = position()

    @property
    def place(self) -> tuple[str | None, int]:
        """(file, line) of the user's line; (None, 0) where it was not located, or there is none."""
        return (None, 0) if self.where is None else self.where.place

    @property
    def line(self) -> str:
        """The same in words."""
        file, line = self.place
        return f"{file}, line {line}"

    def told(self) -> str:
        """The call as its user knows it, who did not wait for it at once, with its line."""
        return f"{'i' * (self.verb in ('send', 'recv'))}{self} at {self.line}"

    def agreed(self) -> tuple[object, ...]:
        """What all ranks must agree on, of a collective."""
        return self.verb, self.dtype, self.op, self.root, self.same

    def __str__(self) -> str:
        shapes = [self.shapes] if isinstance(self.shapes, torch.Size) else self.shapes
        tensors = ", ".join(f"{dtype_name(self.dtype)}{list(shape)}" for shape in shapes[:4])
        if len(shapes) > 4:
            tensors += f", ... {len(shapes)} tensors"
        parts = [
            part
            for part in (
                self.layout,
                tensors,
                self.op and f"op={self.op}",
                self.root is not None and f"root={self.root}",
                self.tag is not None and f"tag={self.tag}",
            )
            if part
        ]
        return f"{self.verb}({', '.join(parts)})"


def by_ranks(texts: Mapping[int, str]) -> list[str]:
    """What each rank has called, in words: a line for all that have called the same.

    >>> by_ranks({0: "barrier()", 1: "reduce()", 2: "reduce()"})
    ['rank 0: barrier()', 'ranks 1, 2: reduce()']
    """
    who: dict[str, list[str]] = {}
    for rank, text in texts.items():
        who.setdefault(text, []).append(str(rank))
    return [f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}: {text}" for text, ranks in who.items()]


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
