"""Requests that arrive at random, answered in batches by replicas behind a queue on rank 0. Lesson 23.

D. Crankshaw et al., "Clipper: A Low-Latency Online Prediction Serving System", NSDI 2017, section 4.3.

A request is a row of numbers, and so is its answer. Rank 0 sends a replica the size of a batch, one int64,
then its rows; a size of 0 ends the replica. All tensors are on the CPU.
"""

import time
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Thread

import torch
import torch.distributed as dist

Answered = Callable[[range, torch.Tensor, float], None]
"""answered(batch, answers, now): what is done with the answers to requests of these numbers (s)."""


def close_batch(arrived: Sequence[float], now: float, most: int, timeout: float) -> int:
    """How many of the waiting requests become a batch now, oldest first; 0: none yet. Built in lesson 23.

    `arrived`: when each came, the oldest first. A batch closes when it is full, with `most` requests, or when
    the oldest has waited for `timeout` seconds.

    >>> close_batch([0.0, 0.3], now=0.4, most=8, timeout=0.5)
    0
    >>> close_batch([0.0, 0.3], now=0.5, most=8, timeout=0.5)
    2
    """
    if len(arrived) >= most:
        return most
    if arrived and now - arrived[0] >= timeout:
        return len(arrived)
    return 0


def answer_batches(model: Callable[[torch.Tensor], torch.Tensor], width: int) -> None:
    """Replica: answer batches of rows of this width until an empty one comes. Built in lesson 23."""
    size = torch.empty(1, dtype=torch.int64)
    while True:
        dist.recv(size, 0)
        if size == 0:
            return
        x = torch.empty(int(size), width)
        dist.recv(x, 0)
        dist.send(model(x), 0)


def feed(replica: int, x: torch.Tensor, closed: SimpleQueue, answered: Answered, begun: float) -> None:
    """Front end, a thread for each replica: hand it one batch after the other, until None comes.

    It keeps the batch until the answers are there. Built in lesson 23.
    """
    while (batch := closed.get()) is not None:
        rows = x[list(batch)]
        dist.send(torch.tensor([len(batch)]), replica)
        dist.send(rows, replica)
        answers = torch.empty_like(rows)
        dist.recv(answers, replica)
        answered(batch, answers, time.perf_counter() - begun)
    dist.send(torch.tensor([0]), replica)
    closed.put(None)  # for the next thread


def serve_requests(
    x: torch.Tensor,
    arrivals: Sequence[float],
    most: int,
    timeout: float,
    replicas: Iterable[int],
    answered: Answered,
) -> None:
    """Front end: request i, x[i], arrives at arrivals[i] (s), in order, in batches that `close_batch` closes.

    `answered(batch, answers, now)` is called with each batch's answers when they come, in its replica's
    thread. The replicas call `answer_batches`, and have ended afterwards. Built in lesson 23.
    """
    closed, first = SimpleQueue(), 0
    given = x, closed, answered, (begun := time.perf_counter())
    feeds = [Thread(target=feed, args=(r, *given), daemon=True) for r in replicas]
    list(map(Thread.start, feeds))
    while first < len(arrivals):
        now = time.perf_counter() - begun
        waiting = arrivals[first : bisect(arrivals, now)]
        if n := close_batch(waiting, now, most, timeout):
            closed.put(range(first, first + n))
            first += n
        time.sleep(0.001)
    closed.put(None)
    list(map(Thread.join, feeds))
