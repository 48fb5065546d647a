"""The digest of a value: every bit counts, and nothing but the bits."""

import numpy
import pytest
import torch

from labkit.rank import digest
from labkit.rank.digest import piece


def digests(value):
    return dict(digest.digests(value))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_a_tensor_is_told_by_dtype_shape_and_norm(dtype):
    (only,) = digests(torch.ones(3, 3, dtype=dtype)).values()
    assert (only.dtype, only.shape, only.norm) == (str(dtype)[6:], (3, 3), 3.0)


def test_one_bit_changes_the_checksum_and_layout_in_memory_does_not():
    x = torch.arange(6.0).reshape(2, 3)
    changed = x.clone()
    changed[1, 2] = torch.nextafter(x[1, 2], torch.tensor(9.0))
    assert digests(x) == digests(x.t().contiguous().t()) != digests(changed)
    assert digests(torch.zeros(1)) != digests(-torch.zeros(1)), "bits, not values"
    assert digests(x) != digests(x.reshape(3, 2)) and digests(x) != digests(x.double())


def test_names_inside_of_modules_optimisers_and_containers():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    model(torch.randn(4, 2)).sum().backward()
    optimiser.step()
    assert {"0.weight", "1.running_mean", "1.num_batches_tracked"} <= set(digests(model))
    found = digests(optimiser)
    assert found["param_groups[0].lr"].value == "0.5" and found["state[0].momentum_buffer"].shape == (2, 2)
    assert list(digests({"a": [1, {"b": 2.5}], "c": ()})) == ["a[0]", "a[1].b", "c"]


def test_what_cannot_be_compared_has_no_checksum():
    assert digests([print])["[0]"].checksum == "" and digests(torch.nn.Linear)[""].dtype == "type"


def test_numpy_is_the_same_as_torch():
    assert digests(numpy.ones((2, 2))) == digests(torch.ones(2, 2, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int32, torch.complex64])
def test_a_piece_is_the_numbers_themselves(dtype):
    x = torch.arange(10).to(dtype)
    got = piece({"x": x}, "x", 4, 6)
    assert got.tolist() == ([4, 0, 5, 0] if dtype.is_complex else [4, 5])
    assert piece(7, "", 0, 5).tolist() == [7]
