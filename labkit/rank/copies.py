"""Copies of this rank, in which a cell runs in one order after another: `%%px --orders`.

A copy is forked. So it has all that cells have defined, what it does to it is nobody else's, and it is gone
when it ends. Nothing that it calls goes to MPI: it asks the notebook, which plays all ranks
(`labkit.lab.orders`), over a socket that only this user reaches and only who knows the key may speak on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection
from typing import Any, NoReturn, cast

import torch.distributed as dist
from IPython import get_ipython
from IPython.utils.capture import capture_output

from labkit import LabError
from labkit.launch.witness import end_with
from labkit.mpi.collectives import shared_memory
from labkit.mpi.errors import MismatchError
from labkit.mpi.messages import slow_link
from labkit.mpi.process import moving
from labkit.mpi.progress import deferred, progress
from labkit.mpi.record import history
from labkit.mpi.record.position import Position, position
from labkit.mpi.watched.communicators import Comm
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.played import Given, Operation, PlayedComm
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.world import existing
from labkit.rank import cells
from labkit.rank.history import told
from labkit.rank.protocol import Asked


def serve(address: str, key: bytes, source: str) -> None:
    """Fork a copy of this rank whenever the notebook asks for one, which runs the cell; until it hangs up."""
    rank, copy = dist.get_rank(), 0
    with Client(address, "AF_UNIX", authkey=key) as notebook:
        notebook.send(rank)
        try:
            while notebook.recv() == "copy":
                copy = _fork(address, key, source, rank)
                notebook.recv()  # that it is over
                _end(copy)
                copy = 0
                notebook.send("gone")
        except EOFError:
            return
        finally:
            if copy:
                _end(copy)


def _fork(address: str, key: bytes, source: str, rank: int) -> int:
    own = os.getpid()
    with progress, moving:  # else a lock that another thread holds would be held for ever in the copy
        copy = os.fork()
    if copy:
        return copy
    code = 1
    try:
        end_with(own)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Client(address, "AF_UNIX", authkey=key) as notebook:
            notebook.send(rank)
            late = notebook.recv()
            player = _Player(notebook, late)
            _leave_mpi(player, rank)
            player.end(_run(source))
        code = 0
    except EOFError:
        pass  # the notebook has hung up
    finally:
        os._exit(code)


def _end(copy: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(copy, signal.SIGKILL)
    os.waitpid(copy, 0)


class _Player:
    """Tells the notebook what this copy calls, and what it waits for.

    `late`: a message may say what its tensor has when it leaves, and is there as early as it can be.
    """

    def __init__(self, notebook: Connection, late: bool) -> None:
        self._notebook, self._late = notebook, late
        self._under_way: dict[int, tuple[Callable[[], bytes], bytes]] = {}
        self._places: list[Position | None] = []

    def call(self, operation: Operation, given: Callable[[], bytes]) -> int:
        where = position()
        self._places.append(where)
        place = cells.place(*where.place) if where else ""
        turns, message = len(history.calls), given()
        what = operation.verb + (f" of {operation.same}" if operation.same else "")
        asked = Asked(**vars(operation), what=what, place=place, turns=turns)
        self._notebook.send(("calls", asked, message))
        number = len(self._places) - 1
        self._under_way[number] = given, message
        return number

    def wait(self, number: int) -> Given:
        return cast(Given, self._ask("waits", number))

    def look(self, number: int) -> Given | None:
        return self._ask("looks", number) if self._late else None

    def _ask(self, what: str, number: int) -> Given | None:
        at_once = position() is self._places[number]  # else the user's code has gone on since the call
        self._notebook.send((what, number, len(history.calls), at_once, self._written_to()))
        if what == "waits":
            self._under_way.pop(number, None)
        match self._notebook.recv():
            case "end":
                self._notebook.send(told())
                os._exit(0)
            case ["refused", found]:
                raise MismatchError("a collective", found, "call the same on all ranks")
            case ["over", given]:
                return given
        return None

    def _written_to(self) -> dict[int, bytes]:
        """What tensors have now that were written to since they were given, if nobody has waited."""
        now = {number: given() for number, (given, _) in self._under_way.items()}
        return {number: message for number, message in now.items() if message != self._under_way[number][1]}

    def end(self, said: dict[str, Any]) -> None:
        """The cell has come to its end."""
        self._notebook.send(("ends", said, told(), self._written_to()))


def _leave_mpi(player: _Player, rank: int) -> None:
    """From now on calls go to the player."""
    here = existing()
    assert here is not None  # the notebook has asked for backend mpi
    history.forget()
    deferred.clear()
    slow_link.link, shared_memory.POSSIBLE = None, False
    here.checked = False

    def comms(ranks: Sequence[int], key: str, seconds: float = 0.0) -> Any:
        return tuple(PlayedComm(player, key, ranks, rank) for _ in range(2))

    def meet(ranks: Sequence[int], label: str, seconds: float = 0.0) -> Any:
        made = comms(ranks, label)
        made[1].Ibarrier().Test()
        return made

    here.communicators = meet  # type: ignore[method-assign]
    for key, group in here.groups.items():
        group.data, group.side = (Channel(cast("MPI.Intracomm", c)) for c in comms(group.ranks, key))
    Comm.__getattribute__ = _refuse_mpi4py  # type: ignore[method-assign, assignment]
    sys.breakpointhook = _refuse_to_stop


def _refuse_to_stop(*args: Any, **kwargs: Any) -> NoReturn:
    found = "nobody can answer pdb in a copy of a rank"
    raise LabError("breakpoint() in %%px --orders", found, "leave one of them out")


def _refuse_mpi4py(comm: Comm, name: str) -> NoReturn:
    found = "only torch.distributed is played in every order"
    raise LabError(f"mpi4py's {name} in %%px --orders", found, "use torch.distributed, or leave --orders out")


def _run(source: str) -> dict[str, Any]:
    """Run the cell: what it said, showed and raised, as a `Said` has it."""
    shell = get_ipython()
    shell.events.callbacks = dict.fromkeys(shell.events.callbacks, [])  # they speak to MPI and the front end
    raised: list[tuple[str, str, list[str]]] = []
    shell._showtraceback = lambda kind, error, lines: raised.append((kind.__name__, str(error), lines))
    with capture_output() as captured:
        try:
            shell.run_cell(source, store_history=False)
        except BaseException as error:  # noqa: BLE001 - sys.exit, and whatever else a cell may do
            raised.append((type(error).__name__, str(error), []))
        sys.stdout.flush()
    shown = [output.data for output in captured.outputs]
    return {
        "stdout": captured.stdout,
        "stderr": captured.stderr,
        "displays": [{k: v for k, v in bundle.items() if isinstance(v, str)} for bundle in shown],
        "failure": raised[-1] if raised else None,
    }
