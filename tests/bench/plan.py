"""What is measured: sizes, how often, in which order."""

from dataclasses import dataclass

CONTENDERS = ("gloo", "raw", "mpi", "checked")
VERBS = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "gather",
    "scatter",
    "all_to_all",
    "ping_pong",
    "barrier",
)
FLAT_RING = "flat ring"
"""all_reduce against a ring of messages, which does not know that some ranks share a host."""
KB, MB = 1024, 1024 * 1024
SIZES = (8, KB, 64 * KB, MB, 16 * MB, 100 * MB)
QUICK_SIZES = (8, 64 * KB, MB, 16 * MB)


@dataclass(frozen=True)
class Plan:
    """One launch of ranks measures all of this; a run makes several launches."""

    rows: list[tuple[str, int]]  # verb, bytes
    rounds: int
    ddp_steps: int


@dataclass(frozen=True)
class TracePlan:
    """The same for what recording costs; `sizes` in bytes."""

    sizes: tuple[int, ...] = (8, 64 * KB)
    rounds: int = 40


def calls(nbytes: int) -> int:
    """How many calls make one batch: enough to time, few enough that gloo's take well under a second."""
    for limit, count in ((KB, 100), (64 * KB, 50), (MB, 10), (16 * MB, 2)):
        if nbytes <= limit:
            return count
    return 1


def plan(quick: bool, verbs: list[str] | None = None, hosts: bool = False) -> Plan:
    """all_reduce at every size, the other verbs up to 16 MB; a barrier has no size.

    Between hosts a flat ring is measured too, at the sizes that a ring is for.
    """
    rows = []
    for verb in verbs or (*VERBS, *([FLAT_RING] if hosts else [])):
        for nbytes in QUICK_SIZES if quick else SIZES:
            if verb == "barrier" and nbytes > 8:
                continue
            if nbytes > 16 * MB and verb != "all_reduce":
                continue
            if nbytes < 64 * KB and verb == FLAT_RING:
                continue
            rows.append((verb, nbytes))
    return Plan(rows, rounds=3 if quick else 5, ddp_steps=10 if quick else 20)
