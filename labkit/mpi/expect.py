"""What the verbs expect of their tensors: what MPI would take and get wrong is refused."""

from collections.abc import Sequence

import torch

from labkit import LabError


def expect(verb: str, found: int, wanted: int, what: str, *tensors: torch.Tensor) -> None:
    """LabError for a size or a dtype that does not fit the others."""
    if found != wanted:
        raise LabError(f"{verb} with {what} of {wanted}", f"{what} of {found}", f"give the {what} that size")
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) > 1:
        raise LabError(
            f"{verb} of one dtype", f"{', '.join(sorted(map(str, dtypes)))}", "convert the tensors first"
        )


def expect_rows(
    what: str, tensor: torch.Tensor, splits: Sequence[int], blocks: Sequence[int], ranks: int
) -> None:
    """LabError for splits that leave something of a tensor over, or reach beyond it."""
    if len(blocks) == ranks and sum(blocks) == tensor.numel():
        return
    rows = tensor.shape[0] if tensor.dim() else 1
    asked = f"all_to_all_single with {what} of {rows} rows and {what}_split_sizes={list(splits)}"
    if splits:
        found = f"these are {len(splits)} sizes for {ranks} ranks, which add up to {sum(splits)}"
        raise LabError(asked, found, "give a size for each rank; together they are the rows")
    raise LabError(asked, f"{rows} rows for {ranks} ranks", f"give {what}_split_sizes")
