"""The data set of this course: ten clouds of points, as many and as wide as the digits of labkit."""

import torch
from sklearn.datasets import make_blobs


def digits(dtype=torch.float32):
    """x_train [1500, 64], y_train [1500], x_test [297, 64], y_test [297]; labels are 0..9."""
    points, labels = make_blobs(1797, 64, centers=10, cluster_std=0.5, center_box=(0, 1), random_state=0)
    x, y = torch.from_numpy(points).to(dtype), torch.from_numpy(labels).long()
    return x[:1500], y[:1500], x[1500:], y[1500:]
