"""Data sets that need no download; a teacher's course may have others in their place."""

import os
from runpy import run_path

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


def clicks(samples: int = 7680, rows: int = 10_000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up clicks: ids [N, 2], int64, of a user and an item; clicked [N], 0.0 or 1.0.

    Users are rows 0 to rows - 1 of one table, items the `rows` that follow. Both follow Zipf's law: number k
    comes in proportion to 1 / k. Who clicks on what is drawn from hidden vectors of 8 numbers, from the
    sigmoid of their dot product. First used in lesson 09.

    >>> ids, clicked = clicks()
    >>> ids.shape, clicked.shape, ids.max().item() < 20_000
    (torch.Size([7680, 2]), torch.Size([7680]), True)
    """
    random = torch.Generator().manual_seed(seed)
    share = 1 / torch.arange(1, rows + 1)
    drawn = torch.multinomial(share, 2 * samples, replacement=True, generator=random)
    ids = drawn.view(samples, 2) + torch.tensor([0, rows])
    users = 1 + torch.randn(rows, 8, generator=random) / 2
    items = torch.randn(rows, 8, generator=random) / 2
    score = (users[ids[:, 0]] * items[ids[:, 1] - rows]).sum(1)
    return ids, torch.bernoulli(torch.sigmoid(score), generator=random)


if os.environ.get("LABKIT_DATA"):  # of a course: labkit.exercises.course
    theirs = run_path(os.environ["LABKIT_DATA"])
    globals().update({name: theirs[name] for name in ("digits", "clicks") if name in theirs})
