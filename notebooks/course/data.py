"""The data set of this course: ten clouds of points, as many and as wide as the digits of labkit."""

import torch
from sklearn.datasets import make_classification


def digits(dtype=torch.float32):
    """x_train [1500, 64], y_train [1500], x_test [297, 64], y_test [297]; labels are 0..9."""
    points, labels = make_classification(
        1797, 64, n_informative=20, n_classes=10, n_clusters_per_class=1, class_sep=2.0, random_state=0
    )
    x, y = torch.from_numpy(points).to(dtype) / 4, torch.from_numpy(labels).long()
    return x[:1500], y[:1500], x[1500:], y[1500:]
