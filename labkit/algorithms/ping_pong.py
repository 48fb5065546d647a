"""What a message costs: measured by ping-pong, fitted to alpha + n * beta. Built in lesson 01."""

import time
from collections.abc import Sequence

import numpy as np
import torch
import torch.distributed as dist


def ping_pong(n: int, repeats: int = 20) -> float:
    """Seconds that a message of n bytes takes from rank 0 to rank 1, the best of `repeats`.

    Call it on ranks 0 and 1 and on no other: rank 0 sends n bytes and gets them back, and half
    of the round trip is returned on both. Built in lesson 01.
    """
    x, times = torch.zeros(n, dtype=torch.uint8), []
    for _ in range(repeats):
        start = time.perf_counter()
        if dist.get_rank() == 0:
            dist.send(x, dst=1)
            dist.recv(x, src=1)
        else:
            dist.recv(x, src=0)
            dist.send(x, dst=0)
        times.append(time.perf_counter() - start)
    return min(times) / 2


def fit_alpha_beta(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Fit seconds = alpha + sizes * beta: returns alpha in seconds, beta in seconds per byte.

    What is made small is the sum of squared relative errors, so that a byte and 4 MB count alike.
    `sizes` in bytes and `seconds` are sequences of equal length, at least two. Built in lesson 01.

    >>> alpha, beta = fit_alpha_beta([0, 1_000_000], [1e-5, 2.1e-4])
    >>> f"{alpha:.0e} s, {1 / beta:.0e} bytes per second"
    '1e-05 s, 5e+09 bytes per second'
    """
    n, t = np.array(sizes, dtype=float), np.array(seconds)
    relative = np.column_stack([1 / t, n / t])
    alpha, beta = np.linalg.lstsq(relative, np.ones(len(t)), rcond=None)[0]
    return float(alpha), float(beta)
