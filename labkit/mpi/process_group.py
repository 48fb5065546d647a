"""MPIProcessGroup: torch's names and option objects, each mapped to one call of `begin`."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from typing import Any, TypeAlias

import torch

from labkit import LabError
from labkit.mpi.call import Call
from labkit.mpi.collectives import plans
from labkit.mpi.cuda import with_nccl
from labkit.mpi.errors import require_partner
from labkit.mpi.expect import expect, expect_rows
from labkit.mpi.group import Group
from labkit.mpi.hooks import with_hooks
from labkit.mpi.messages import slow_link
from labkit.mpi.repair.monitored import monitored_barrier
from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import op_name
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.work import Work

Tensors: TypeAlias = Sequence[torch.Tensor]
OneOrMany: TypeAlias = torch.Tensor | Tensors


def _op(opts: Any) -> str:
    name = op_name(opts.reduceOp) if opts is not None else "SUM"
    if name == "PREMUL_SUM":
        raise LabError(
            "ReduceOp.PREMUL_SUM", "only NCCL has it", "multiply the tensor, then use ReduceOp.SUM"
        )
    return name


def _at_once(opts: Any) -> bool:
    """Whether the caller waits for it at once, and so has nothing else to do."""
    return not getattr(opts, "asyncOp", True)


@with_hooks
@with_nccl
class MPIProcessGroup(Group):
    """All verbs of torch.distributed for dense tensors, and all_reduce of sparse ones.

    Ranks are ranks in the group.

    torch has had several names for some verbs; the old ones are aliases.
    """

    def allreduce(self, tensors: torch.Tensor | Tensors, opts: Any = None) -> Work:
        op = _op(opts)
        tensors = [tensors] if not isinstance(tensors, (list, tuple)) else list(tensors)
        plan = plans.all_reduce(tensors, op, self.memory, _at_once(opts))
        # Of messages, which carry what is sparse, those sent are behind those received.
        window = None if any([t.is_sparse for t in tensors]) else plans.WINDOW
        return self.begin("all_reduce", plan, tensors, tensors, opts, op=op, window=window)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        op, root = _op(opts), opts.rootRank
        plan = plans.reduce(tensors[0], op, root, self.memory, _at_once(opts))
        return self.begin("reduce", plan, list(tensors), tensors, opts, op=op, root=root)

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        plan = plans.broadcast(tensors, opts.rootRank, self.memory, _at_once(opts))
        return self.begin("broadcast", plan, list(tensors), tensors, opts, root=opts.rootRank)

    def all_gather_single(self, outputs: OneOrMany, inputs: OneOrMany, opts: Any = None) -> Work:
        outputs, inputs = _lists(outputs, inputs)
        for target, source in zip(outputs, inputs, strict=True):
            expect(
                "all_gather_into_tensor",
                target.numel(),
                source.numel() * self.members,
                "output",
                source,
                target,
            )
        plan = chain.from_iterable(
            plans.all_gather_into(t, s, self.memory) for t, s in zip(outputs, inputs, strict=True)
        )
        return self.begin("all_gather_into_tensor", plan, list(outputs), inputs, opts)

    _allgather_base = all_gather_single_coalesced = allgather_into_tensor_coalesced = all_gather_single

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        for targets, source in zip(outputs, inputs, strict=True):
            expect("all_gather", len(targets), self.members, "output list", source, *targets)
            expect("all_gather", targets[self.me].numel(), source.numel(), f"output {self.me}", source)
        plan = chain.from_iterable(
            plans.all_gather(t, s, self.memory) for t, s in zip(outputs, inputs, strict=True)
        )
        # Ranks may give different sizes; what they must agree on is the list of all sizes.
        same = [tuple(t.shape) for targets in outputs for t in targets]
        results = outputs[0] if len(outputs) == 1 else outputs
        return self.begin("all_gather", plan, results, inputs, opts, same=same)

    def allgather_coalesced(self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        by_input = [[of_rank[k] for of_rank in output_lists] for k in range(len(inputs))]
        return self.allgather(by_input, inputs, opts)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        targets = outputs[0] if self.me == opts.rootRank else []
        if targets:
            expect("gather", len(targets), self.members, "output list", inputs[0], *targets)
        plan = plans.gather(targets, inputs[0], opts.rootRank, self.memory)
        return self.begin("gather", plan, targets, inputs, opts, root=opts.rootRank)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        sources = inputs[0] if self.me == opts.rootRank else []
        if sources:
            expect("scatter", len(sources), self.members, "input list", outputs[0], *sources)
        plan = plans.scatter(outputs[0], sources, opts.rootRank, self.memory)
        return self.begin("scatter", plan, list(outputs), outputs, opts, reads=sources, root=opts.rootRank)

    def reduce_scatter_single(self, outputs: OneOrMany, inputs: OneOrMany, opts: Any = None) -> Work:
        op = _op(opts)
        outputs, inputs = _lists(outputs, inputs)
        for target, source in zip(outputs, inputs, strict=True):
            expect(
                "reduce_scatter_tensor",
                source.numel(),
                target.numel() * self.members,
                "input",
                source,
                target,
            )
        plan = chain.from_iterable(
            plans.reduce_scatter(t, s, op, self.memory, _at_once(opts))
            for t, s in zip(outputs, inputs, strict=True)
        )
        return self.begin("reduce_scatter_tensor", plan, list(outputs), inputs, opts, op=op)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced = reduce_scatter_single

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work:
        op = _op(opts)
        for target, sources in zip(outputs, inputs, strict=True):
            expect("reduce_scatter", len(sources), self.members, "input list", target, *sources)
        plan = chain.from_iterable(
            plans.reduce_scatter_list(t, s, op, self.memory, _at_once(opts))
            for t, s in zip(outputs, inputs, strict=True)
        )
        return self.begin(
            "reduce_scatter", plan, list(outputs), [t for sources in inputs for t in sources], opts, op=op
        )

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Work:
        take = plans.blocks(output, output_splits, self.members)
        give = plans.blocks(input, input_splits, self.members)
        expect_rows("output", output, output_splits, take, self.members)
        expect_rows("input", input, input_splits, give, self.members)
        plan = plans.all_to_all_single(
            output, input, take, give, not (output_splits or input_splits), self.me
        )
        return self.begin("all_to_all_single", plan, [output], [input], opts, blocks=(give, take), same="")

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        give, take = [t.numel() for t in inputs], [t.numel() for t in outputs]
        expect("all_to_all", len(inputs), self.members, "input list", *inputs, *outputs)
        expect("all_to_all", len(outputs), self.members, "output list")
        plan = plans.all_to_all(outputs, inputs, self.me)
        return self.begin("all_to_all", plan, list(outputs), inputs, opts, blocks=(give, take), same="")

    def barrier(self, opts: Any = None) -> Work:
        return self.begin("barrier", iter([steps.barrier()]), [], [], opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        monitored_barrier(self, self.seconds if timeout is None else timeout.total_seconds(), wait_all_ranks)

    # Messages

    def send(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        call = Call("send", self.named, self._partner("send", rank), tensors, tag=tag)
        return slow_link.begin_send(self, call, tensors[0], rank, tag)

    def recv(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        call = Call("recv", self.named, self._partner("recv", rank), tensors, tag=tag)
        return slow_link.begin_receive(self, call, tensors[0], rank, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        others = tuple(r for r in self.ranks if r != self.ranks[self.me])
        call = Call("recv", self.named, others, tensors, tag=tag)
        return slow_link.begin_receive(self, call, tensors[0], MPI.ANY_SOURCE, tag)

    def _partner(self, verb: str, rank: int) -> tuple[int]:
        require_partner(verb, rank, self.named, self.members)
        return (self.ranks[rank],)


def _lists(outputs: OneOrMany, inputs: OneOrMany) -> tuple[Tensors, Tensors]:
    """Of verbs that take one tensor and one, or as many as they like."""
    return ([outputs], [inputs]) if isinstance(outputs, torch.Tensor) else (outputs, inputs)
