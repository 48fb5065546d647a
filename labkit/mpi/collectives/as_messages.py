"""What one rank has for each other, as messages: straight from where it lies to where it is wanted.

MPI passes most of it on by way of other ranks, and memory that the ranks share would take a copy more. Each
rank begins with its neighbour, so that not all send to the same one at the same time. Between hosts, what all
want passes the link once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from labkit.mpi.collectives.copies import copied, overlap, readable
from labkit.mpi.expect import expect
from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import dense, nbytes
from labkit.mpi.wire.parts import PAUSE, Local, Plan, Step

AT_LEAST = 1 << 19  # bytes: for less, MPI's one call costs less than a message for each rank
TAG = (1 << 14) + 2
"""Of these messages: no receive of the user's may get one."""


def worth(nbytes: int) -> bool:
    """Whether so much goes as messages; it must be the same on all ranks that send or receive it."""
    return nbytes >= AT_LEAST


def gather(targets: Sequence[torch.Tensor], source: torch.Tensor, root: int, rank: int) -> Plan:
    if rank != root:
        yield steps.send((yield from readable(source)), root, TAG)
        return
    _fitting("gather", targets, source)
    for other in _others(root, len(targets)):
        yield _received(targets[other], other)
    yield _own(source, targets[root])


def scatter(target: torch.Tensor, sources: Sequence[torch.Tensor], root: int, rank: int) -> Plan:
    if rank != root:
        yield _received(target, root)
        return
    _fitting("scatter", sources, target)
    for other in _others(root, len(sources)):
        yield steps.send((yield from readable(sources[other])), other, TAG)
    yield _own(sources[root], target)


def all_gather(
    targets: Sequence[torch.Tensor], source: torch.Tensor, rank: int, hosts: Sequence[str]
) -> Plan:
    """`targets` may differ in length. The source may be this rank's own one (FSDP2 does that).

    What a rank has goes to each other host once, to a rank there that then passes it on to the others.
    """
    given = yield from readable(source)
    taken = [dense(target, read=False) for target in targets]
    in_place = taken[rank][0].data_ptr() == given.data_ptr()
    if not in_place and any(overlap(given, target) for target, _ in taken):
        given = given.clone()
    comes_from, goes_to, mates = route(rank, hosts)
    for other in _others(rank, len(targets)):
        if comes_from[other] == other:
            yield steps.receive(taken[other][0], other, TAG)
    for other in _others(rank, len(targets), -1):
        if other in goes_to:
            yield steps.send(given, other, TAG)
    if not in_place:
        yield _own(given, targets[rank])
    if len(mates) < len(hosts):
        yield PAUSE
        for other, last in enumerate(comes_from):
            if last != other:
                yield steps.receive(taken[other][0], last, TAG)
            elif other not in mates:
                for mate in mates - {rank}:
                    yield steps.send(taken[other][0], mate, TAG)
    backs = [back for other, (_, back) in enumerate(taken) if back is not None and other != rank]
    if backs:
        yield PAUSE  # some of the source may lie in there
        yield from map(Local, backs)


def route(rank: int, hosts: Sequence[str]) -> tuple[list[int], set[int], set[int]]:
    """(from whom this rank gets what each one has, to whom it sends what it has itself, who is on its host).

    On another host somebody gets it first, and then passes it on to the others there.

    >>> [route(rank, ["a", "a", "b", "b"])[:2] for rank in (0, 3)]
    [([0, 1, 2, 1], {0, 1, 2}), ([2, 1, 2, 3], {1, 2, 3})]
    """
    on = {host: [r for r, other in enumerate(hosts) if other == host] for host in set(hosts)}
    mates = on[hosts[rank]]
    comes_from, goes_to = list(range(len(hosts))), set(mates)
    for ranks in on.values():
        if ranks is not mates:
            goes_to.add(ranks[mates.index(rank) % len(ranks)])
            for place, source in enumerate(ranks):
                first = mates[place % len(mates)]
                comes_from[source] = source if first == rank else first
    return comes_from, goes_to, set(mates)


def all_to_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], rank: int) -> Plan:
    """Of those that are worth it."""
    expect("all_to_all", targets[rank].numel(), sources[rank].numel(), f"output {rank}")
    for other in _others(rank, len(targets)):
        if worth(nbytes(targets[other])):
            yield _received(targets[other], other)
    for other in _others(rank, len(sources), -1):
        if worth(nbytes(sources[other])):
            yield steps.send((yield from readable(sources[other])), other, TAG)
    if worth(nbytes(sources[rank])):
        yield _own(sources[rank], targets[rank])


def _others(rank: int, size: int, way: int = 1) -> Iterator[int]:
    return ((rank + way * away) % size for away in range(1, size))


def _received(target: torch.Tensor, rank: int) -> Step:
    taken, back = dense(target.detach(), read=False)
    step = steps.receive(taken, rank, TAG)
    step.finish = back
    return step


def _own(source: torch.Tensor, target: torch.Tensor) -> Local:
    alike = source.shape == target.shape  # as a rule, and a reshape takes longer than all else here
    return copied(source if alike else source.reshape(target.shape), target.detach())


def _fitting(verb: str, tensors: Sequence[torch.Tensor], one: torch.Tensor) -> None:
    for rank, tensor in enumerate(tensors):
        if tensor.numel() != one.numel():
            expect(verb, tensor.numel(), one.numel(), f"numbers for rank {rank}")
