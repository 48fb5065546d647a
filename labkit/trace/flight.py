"""PyTorch's Flight Recorder dumps: a file per rank, as NCCL's watchdog writes and `torchfrtrace` reads them.

The format: `torch/csrc/distributed/c10d/FlightRecorder.hpp`, version 2.10.
"""

from __future__ import annotations

import ast
import io
import math
import pickle
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from labkit import LabError
from labkit.trace.chrome import MOST_EVENTS, MOST_RANKS, UNREADABLE
from labkit.trace.event import COMPUTE, MESSAGE, Event
from labkit.trace.records import Moment, Operation, Place, Recording

VERSION = "2.10"
WORLD = "default_pg"
"""What torch calls the group of all ranks."""
FILE = re.compile(r"\D*?(\d{1,6})")
LARGEST, LONGEST_GROUP = 1 << 28, 1 << 20
"""Bytes of a rank's dump that are read, and letters of the list of a group's ranks."""
_NAMES = {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}
"""Verbs that a dump has under another name than torch.distributed."""
_DTYPES = {
    "Float": ("float32", 4), "Double": ("float64", 8), "Half": ("float16", 2), "BFloat16": ("bfloat16", 2),
    "Long": ("int64", 8), "Int": ("int32", 4), "Short": ("int16", 2), "Char": ("int8", 1),
    "Byte": ("uint8", 1), "Bool": ("bool", 1), "ComplexFloat": ("complex64", 8),
    "ComplexDouble": ("complex128", 16),
}  # fmt: skip
"""A dump's names of the dtypes: torch's, and bytes of an element."""
_PLACE = re.compile(r"(?:(?P<file>.*?), )?line (?P<line>\d+)(?:: (?P<text>.*))?", re.DOTALL)
_FIX = "name the folder of the dumps, whose names end in the number of the rank, and in which nothing else is"


def dump(folder: Path, world_size: int, events: Sequence[Event]) -> None:
    """Write one file for each rank, `rank_0` and so on, into a new or empty folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise LabError(f"Flight Recorder dumps in {folder}", "something is in it", "name a new folder")
    calls = [event for event in events if event.verb != COMPUTE]
    groups = {WORLD: tuple(range(world_size))} | dict(map(_group, calls))
    for rank in range(world_size):
        config = {
            name: {"name": name, "desc": name, "ranks": str(list(ranks))}
            for name, ranks in groups.items()
            if rank in ranks
        }
        entries = list(_entries([event for event in calls if event.rank == rank]))
        document = {"version": VERSION, "entries": entries, "pg_config": config}
        with (folder / f"rank_{rank}").open("xb") as file:
            pickle.dump(document, file)


def load(folder: Path) -> tuple[int, list[Recording]]:
    """The world size, and what the ranks recorded; LabError if the folder holds no dumps.

    Nothing is unpickled but numbers, texts, lists, tuples and dicts.
    """
    dumps = {}
    for path in sorted(folder.iterdir()):
        named = FILE.fullmatch(path.name)
        if named and path.is_file():
            dumps[int(named[1])] = _plain(path)
    if not dumps:
        raise LabError(f"Flight Recorder dumps in {folder}", "no file whose name ends in a rank", _FIX)
    try:
        sizes = [_ranks(one)[-1] + 1 for each in dumps.values() for one in each["pg_config"].values()]
        world_size = max([*sizes, *(rank + 1 for rank in dumps)])
        if world_size > MOST_RANKS or sum(len(each["entries"]) for each in dumps.values()) > MOST_EVENTS:
            raise ValueError(f"a world of {world_size:.3g} ranks, or more than {MOST_EVENTS} calls")
        last = max((_last(one) for each in dumps.values() for one in each["entries"]), default=0)
        return world_size, [_recording(rank, each, world_size, last) for rank, each in dumps.items()]
    except UNREADABLE as error:
        raise no_dumps(folder, error) from None


def no_dumps(folder: Path, error: Exception) -> LabError:
    """That the files of the folder are not what they should be."""
    found = f"{type(error).__name__} {str(error)[:200]}, where a dump of version {VERSION} has something else"
    return LabError(f"Flight Recorder dumps in {folder}", found, _FIX)


class _Plain(pickle.Unpickler):
    """Reads plain data alone: a pickle that names a class or function of any kind is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it wants to run {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside")


def _plain(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise pickle.UnpicklingError(f"it has more than {LARGEST:,} bytes")
        found = _Plain(io.BytesIO(path.read_bytes())).load()
        if not isinstance(found, dict):
            raise pickle.UnpicklingError(f"it holds a {type(found).__name__}")
    except Exception as error:  # bytes that are no pickle end in almost any exception
        raise LabError(
            f"the Flight Recorder dump {path}", f"{type(error).__name__}: {str(error)[:200]}", _FIX
        ) from None
    return found


def _recording(rank: int, document: dict[str, Any], world_size: int, last: int) -> Recording:
    groups = {name: _ranks(one) for name, one in document["pg_config"].items()}
    everybody = tuple(range(world_size))
    operations = []
    for entry in document["entries"]:
        name = entry["process_group"][0]
        members = groups.get(name, everybody)  # gloo lists the group of all ranks under another name
        operations.append(_operation(rank, entry, name, members, last))
    now = operations[0].start if operations else Moment(0, 0)
    return Recording(rank, tuple(operations), ((now, now),))  # what it did in between is not known


def _operation(
    rank: int, entry: dict[str, Any], group: str, members: tuple[int, ...], last: int
) -> Operation:
    verb, _, way = entry["profiling_name"].partition(":")[2].partition(" ")
    verb = _NAMES.get(verb, verb.lower())
    if verb in MESSAGE:
        members = (members[int(re.split("->|<-", way)[1])],)
    ended = entry["time_discovered_completed_ns"] is not None or entry["retired"]
    begin = entry["time_discovered_started_ns"] or entry["time_created_ns"]
    end = entry["time_discovered_completed_ns"] or (begin if ended else last)
    sequence = entry["p2p_seq_id" if verb in MESSAGE else "collective_seq_id"]
    sizes, dtypes = entry["input_sizes"], entry["input_dtypes"]
    if verb == "recv":
        sizes, dtypes = entry["output_sizes"], entry["output_dtypes"]
    names = [_DTYPES.get(one, (one, 0)) for one in dtypes]
    return Operation(
        rank, verb, members, Moment(begin, 0), Moment(end, 0), ended=ended, failed=not ended,
        waited=Moment(begin, 0), group=group, sequence=sequence,
        bytes=sum(math.prod(size) * width for size, (_, width) in zip(sizes, names, strict=False)),
        dtype=names[0][0] if names else "", place=_place(entry.get("frames", [])),
    )  # fmt: skip


def _place(frames: list[dict[str, Any]]) -> Place | None:
    """The innermost frame that is not torch's own."""
    for frame in frames:
        path = Path(frame["filename"])
        if "torch" not in path.parts and not path.name.startswith("<"):
            return Place(frame["name"], frame["line"], None if path.name else 1, path.name)
    return None


def _ranks(group: dict[str, Any]) -> tuple[int, ...]:
    ranks = ast.literal_eval(group["ranks"]) if len(group["ranks"]) < LONGEST_GROUP else None
    return tuple(sorted(map(int, ranks)))


def _last(entry: dict[str, Any]) -> int:
    return int(entry["time_discovered_completed_ns"] or entry["time_created_ns"])


def _group(event: Event) -> tuple[str, tuple[int, ...]]:
    """The name of the group that a dump has this in, and its ranks.

    The analyser takes all ranks of a group to be in each of its operations, in one order: so the messages
    from one rank to another with one tag, which do not overtake each other, are a group.
    """
    ranks = tuple(sorted({event.rank, *event.peers}))
    if event.verb not in MESSAGE:
        return event.group or WORLD, ranks
    source, to = (event.rank, event.peers[0])[:: 1 if event.verb == "send" else -1]
    return f"{source}->{to} tag {event.tag} {event.group}".strip(), ranks


def _entries(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    names = {torch: dump for dump, torch in _NAMES.items()}
    kinds = {torch: (dump, width) for dump, (torch, width) in _DTYPES.items()}
    for number, event in enumerate(events):
        (name, ranks), message = _group(event), event.verb in MESSAGE
        verb = names.get(event.verb, event.verb)
        if message:
            ends = ranks.index(event.rank), ranks.index(event.peers[0])
            verb += " {}{}{}".format(ends[0], "->" if verb == "send" else "<-", ends[1])
        kind, width = kinds.get(event.dtype, ("Byte", 1))
        given, got = _elements(event, event.bytes // width)
        dtypes = [kind] if event.dtype else []
        begin, end = round(event.start * 1e9), round(event.end * 1e9)
        yield {
            "frames": [_frame(event.place)] if event.place else [],
            "record_id": number,
            "pg_id": 0,
            "process_group": (name, name),
            "collective_seq_id": 0 if message else event.sequence,
            "p2p_seq_id": event.sequence if message else 0,
            "op_id": number + 1,
            "profiling_name": f"gloo:{verb}",
            "time_created_ns": begin,
            "input_sizes": [[given]] if dtypes and event.verb != "recv" else [],
            "input_dtypes": dtypes if event.verb != "recv" else [],
            "output_sizes": [[got]] if dtypes and event.verb != "send" else [],
            "output_dtypes": dtypes if event.verb != "send" else [],
            "state": "completed" if event.ended else "scheduled",
            "time_discovered_started_ns": begin,
            "time_discovered_completed_ns": end if event.ended else None,
            "retired": event.ended,
            "timeout_ms": 0,
            "is_p2p": message,
        }


def _frame(place: str) -> dict[str, Any]:
    """ "In [10], line 2: dist.send(x, dst=1)" as a dump has it: the line of a file, named by what it does."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return {"name": place, "filename": "", "line": 0}
    return {"name": found["text"] or "", "filename": found["file"] or "", "line": int(found["line"])}


def _elements(event: Event, count: int) -> tuple[int, int]:
    """How many elements the rank gave and got; an event counts those of one side."""
    ranks = len(event.peers)
    if event.verb in ("all_gather", "all_gather_into_tensor", "gather"):
        return count, count * ranks
    if event.verb in ("reduce_scatter", "reduce_scatter_tensor"):
        return count, count // ranks
    if event.verb == "scatter":
        return count * ranks, count
    return count, count
