"""Records of groups that are not this backend's: gloo, and NCCL.

Their verbs are methods of torch's ProcessGroup, wrapped while a trace is on. What torch calls from C++
does not pass here: the sums in DDP's backward, and functional collectives. NCCL's waits return when
the GPU has the work in its queue.
"""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist

from labkit.mpi.call import Call
from labkit.mpi.errors import require_partner
from labkit.mpi.record import record
from labkit.mpi.record.position import position_above
from labkit.mpi.wire.buffers import op_name

# Method -> the verb, and the place among its arguments of the tensors that this rank passes.
VERBS: dict[str, tuple[str, int | None]] = {
    "allreduce": ("all_reduce", 0), "allreduce_coalesced": ("all_reduce", 0), "reduce": ("reduce", 0),
    "broadcast": ("broadcast", 0), "allgather": ("all_gather", 1), "allgather_coalesced": ("all_gather", 1),
    "_allgather_base": ("all_gather_into_tensor", 1), "all_gather_single": ("all_gather_into_tensor", 1),
    "all_gather_single_coalesced": ("all_gather_into_tensor", 1),
    "allgather_into_tensor_coalesced": ("all_gather_into_tensor", 1), "gather": ("gather", 1),
    "scatter": ("scatter", 0), "reduce_scatter": ("reduce_scatter", 1),
    "_reduce_scatter_base": ("reduce_scatter_tensor", 1),
    "reduce_scatter_single": ("reduce_scatter_tensor", 1),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor", 1),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor", 1), "alltoall": ("all_to_all", 1),
    "alltoall_base": ("all_to_all_single", 1), "all_to_all_single": ("all_to_all_single", 1),
    "barrier": ("barrier", None),
}  # fmt: skip
MESSAGES = ("send", "recv", "recv_anysource")

# (class, name) -> torch's own method, while ours is in its place
_plain: dict[tuple[type, str], Callable] = {}
# works that nobody has seen the end of -> (call, group)
_open: dict[dist.Work, tuple[Call, dist.ProcessGroup]] = {}
# collectives of each group since the trace began
_counts: Counter[str] = Counter()


def watch() -> None:
    """Put the wrappers in place."""
    for name in (*VERBS, *MESSAGES):
        if name in dist.ProcessGroup.__dict__:
            _replace(dist.ProcessGroup, name, _verb)
    for name in ("wait", "is_completed"):
        _replace(dist.Work, name, _end)


def unwatch() -> None:
    """Take them away again."""
    for (cls, name), method in _plain.items():
        setattr(cls, name, method)
    for container in (_plain, _open, _counts):
        container.clear()


def _replace(cls: type, name: str, wrapper: Callable[[str, Callable], Callable]) -> None:
    method = cls.__dict__[name]
    _plain[cls, name] = method
    setattr(cls, name, wrapper(name, method))


def _verb(name: str, method: Callable) -> Callable:
    @wraps(method)
    def recorded(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        if record.records is None:
            return method(group, *args, **kwargs)
        call = call_of(name, group, *args, **kwargs)
        if name in VERBS:
            _counts[group.group_name] += 1
            call.sequence = _counts[group.group_name]
        call.where = position_above("recorded", "torch's function", "its decorator")
        record.begin(call)
        try:
            work = method(group, *args, **kwargs)
        except BaseException:
            record.finish(call, failed=True)
            raise
        if work is None:
            record.finish(call)
        else:
            _open[work] = call, group
            call.posted = record.clock()
        return work

    return recorded


def _end(name: str, method: Callable) -> Callable:
    @wraps(method)
    def observed(work: dist.Work, *args: Any, **kwargs: Any) -> Any:
        call, group = _open.get(work, (None, None))
        if call is None:
            return method(work, *args, **kwargs)
        if name == "wait":
            record.wait(call)
        try:
            done = method(work, *args, **kwargs)
        except BaseException:
            _open.pop(work, None)
            record.finish(call, failed=True)
            raise
        if done:
            _open.pop(work, None)
            record.finish(call, source=source(call, work))
        return done

    return observed


def source(call: Call, work: dist.Work) -> int | None:
    """The rank that a message came from; NCCL cannot tell, but receives from a given rank only."""
    if call.verb != "recv":
        return None
    if len(call.ranks) == 1:
        return call.ranks[0]
    # Of the group's ranks the call names all but this one.
    return sorted({*call.ranks, dist.get_rank()})[work._source_rank()]


def call_of(name: str, group: dist.ProcessGroup, *args: Any, opts: Any = None, **kwargs: Any) -> Call:
    """What was asked of a group by that method."""
    ranks = _ranks(group)
    if name in MESSAGES:
        tensors, *partner, tag = args
        verb = "send" if name == "send" else "recv"
        for rank in partner:  # gloo would read beyond its table, and end the process, or wait for ever
            require_partner(verb, rank, group.group_name, len(ranks))
        others = tuple(r for r in ranks if r != ranks[group.rank()])
        peers = (ranks[partner[0]],) if partner else others
        return Call(verb, group.group_name, peers, tensors, tag=tag)
    verb, place = VERBS[name]
    opts = opts or next((a for a in args if hasattr(a, "asyncOp")), None)
    root = opts.rootRank if hasattr(opts, "rootRank") else None
    return Call(
        verb, group.group_name, ranks, _flat(args[place]) if place is not None else (),
        root=None if root is None else ranks[root],
        op=op_name(opts.reduceOp) if hasattr(opts, "reduceOp") else None,
    )  # fmt: skip


def _ranks(group: dist.ProcessGroup) -> tuple[int, ...]:
    """World ranks of a group; NCCL inside a group of the backend "mpi" is not registered with torch."""
    try:
        return tuple(dist.get_process_group_ranks(group))
    except KeyError:
        return tuple(range(group.size()))


def _flat(tensors: Any) -> list[torch.Tensor]:
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [t for inner in tensors for t in _flat(inner)]
