"""Data sets that need no download."""

import torch
from sklearn.datasets import load_digits

TRAIN = 1500  # splits evenly over 1, 2, 3 or 4 ranks; the other 297 are held out


def digits(
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Handwritten digits: x_train [1500, 64], y_train [1500], x_test [297, 64], y_test [297].

    Pixels are scaled from 0..16 to 0..1, labels are 0..9 (int64). The order is shuffled once with
    a fixed seed, so every rank sees the same split. Source: scikit-learn's copy of the UCI set
    "Optical Recognition of Handwritten Digits". First used in lesson 03.

    >>> [tuple(t.shape) for t in digits()]
    [(1500, 64), (1500,), (297, 64), (297,)]
    """
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    x = torch.from_numpy(pixels)[order].to(dtype) / 16
    y = torch.from_numpy(labels)[order].long()
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]
