"""Conformance tests of the torch.distributed backend `mpi`: one launch of ranks, many cases."""
