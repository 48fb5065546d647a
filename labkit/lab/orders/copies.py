"""The copies of a lab's ranks in which a cell runs, one set for each order; and what they say.

Ranks fork them (`labkit.rank.copies`). They connect to a socket in the lab's folder, which only this user
enters; who does not know the key, which ranks are told over their own channel, is not heard.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, wait
from pathlib import Path
from typing import Any

import ipyparallel as ipp

from labkit import LabError
from labkit.lab import remote
from labkit.lab.display.said import Failure, Said
from labkit.lab.orders.board import Board, Disagreement, Name
from labkit.lab.orders.play import Calls, Ends, Request, Waits
from labkit.lab.remote import Reachable
from labkit.rank.protocol import Remembered
from labkit.rank.wording import cut

PATIENCE = 20.0
"""Seconds that a copy may compute between two calls."""
LOOK_AFTER = 0.25
"""Seconds between two looks at whether the ranks live."""
SOCKET = "orders"


@dataclass(frozen=True)
class Copied:
    """How a copy has ended: what it said, and what it called."""

    remembered: Remembered
    said: Said


class Silent(Exception):
    """A copy computes for longer than it may, or has died: which, and how."""

    def __init__(self, rank: int, how: str) -> None:
        super().__init__(rank, how)
        self.rank, self.how = rank, how


class Troupe:
    """The ranks of a lab, ready to fork copies of themselves."""

    def __init__(self, listener: Listener, answers: ipp.AsyncResult, lab: Reachable) -> None:
        self._listener, self._answers, self._lab = listener, answers, lab
        with self._heard():
            self.ranks = dict(self._arrivals())

    @contextmanager
    def copies(self, late: bool = False) -> Iterator[Copies]:
        """One copy of each rank, about to run the cell; ended and gone at the end of the block."""
        lines: dict[int, Connection] = {}
        try:
            with self._heard():
                for connection in self.ranks.values():
                    connection.send("copy")
                for rank, line in self._arrivals():
                    lines[rank] = line
                for line in lines.values():
                    line.send(late)
            yield Copies(self, lines, late)
        finally:
            for connection in self.ranks.values():
                with suppress(OSError, EOFError):  # of a rank that has died, as the lab will say
                    connection.send("over")
                    if connection.poll(remote.CALL_DEADLINE):
                        connection.recv()
            for line in lines.values():
                line.close()

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """LabError where a rank or its copy hangs up before the cell has begun."""
        try:
            yield
        except (EOFError, OSError, AuthenticationError):
            self.require_alive()
            found = "a copy of a rank ended before it had begun: is there memory for as many again?"
            raise LabError("%%px --orders", found, "free some, or start fewer ranks") from None

    def require_alive(self) -> None:
        """LabError if a rank has died, or does not hear any more."""
        self._lab.require_alive()
        if self._answers.done():
            self._answers.get()

    def _arrivals(self) -> Iterator[tuple[int, Connection]]:
        """As many connections as there are ranks, each with its rank's number."""
        end = time.monotonic() + remote.CALL_DEADLINE * remote.crowded()
        for _ in self._lab.ranks:
            self._await(self._listener._listener._socket, end)  # type: ignore[attr-defined]
            connection = self._listener.accept()
            self._await(connection, end)
            yield connection.recv(), connection

    def _await(self, source: Any, end: float) -> None:
        """Until there is something to read from it."""
        while not wait([source], LOOK_AFTER):
            self.require_alive()
            if time.monotonic() > end:
                found = "not every rank has made a copy of itself: is there memory for as many again?"
                raise LabError("%%px --orders", found, "free some, or start fewer ranks")


@contextmanager
def troupe(lab: Reachable, folder: Path, source: str) -> Iterator[Troupe]:
    """The ranks of a lab stand ready to run that cell in copies of themselves, until the end of the block."""
    key, address = secrets.token_bytes(32), str(folder / SOCKET)
    listener = Listener(address, "AF_UNIX", authkey=key)
    try:
        answers = remote.send(lab, "rank.copies.serve", address, key, source)
        ready = Troupe(listener, answers, lab)
        try:
            yield ready
        finally:
            for connection in ready.ranks.values():
                connection.close()
            end = time.monotonic() + remote.CALL_DEADLINE
            while not answers.wait(LOOK_AFTER) and time.monotonic() < end:
                lab.require_alive()
    finally:
        with suppress(FileNotFoundError):  # the folder goes with a lab that dies
            listener.close()


@dataclass
class Copies:
    """One set of copies, as `play` has ranks.

    `given` is what each call gives; of copies that are `late` what its tensor has now.
    """

    troupe: Troupe
    lines: dict[int, Connection]
    late: bool = False
    given: dict[Name, bytes] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = len(self.lines)
        self.asked = [0] * self.size

    def hear(self, rank: int) -> Request:
        """The next of a rank's requests. Silent if there is none."""
        match self._receive(rank):
            case "calls", asked, message:
                self.given[rank, self.asked[rank]] = message
                self.asked[rank] += 1
                return Calls(asked)
            case ("waits" | "looks") as what, number, turns, at_once, changes:
                self._change(rank, changes)
                return Waits(number, what == "looks", turns, at_once, tuple(changes))
            case "ends", said, remembered, changes:
                self._change(rank, changes)
                return Ends(Copied(remembered, _said(rank, **said)), tuple(changes))
        raise AssertionError("a copy says one of these")

    def go_on(self, rank: int, name: Name, board: Board) -> None:
        """Answer a rank that waits, or looks."""
        if not board.is_over(name, buffered=True):
            self._send(rank, ("not yet",))
            return
        others = board.together(name).items() if board[name].is_collective() else self._message(name, board)
        self._send(rank, ("over", {other: self.given[call] for other, call in others}))

    def _message(self, name: Name, board: Board) -> list[tuple[int, Name]]:
        met = board.met.get(name) if board[name].verb == "recv" else None
        return [] if met is None else [(met[0], met)]

    def refuse(self, rank: int, why: Disagreement) -> None:
        """Let the call of a rank that waits end with an error."""
        self._send(rank, ("refused", "; ".join(why.told)))

    def leave(self, rank: int) -> Copied:
        """End a copy that waits for ever; what it has called."""
        self._send(rank, "end")
        return Copied(self._receive(rank), Said(rank, done=False))

    def _change(self, rank: int, changes: dict[int, bytes]) -> None:
        if self.late:
            self.given |= {(rank, number): message for number, message in changes.items()}

    def _send(self, rank: int, answer: Any) -> None:
        with self._seen_to_end(rank):
            self.lines[rank].send(answer)

    def _receive(self, rank: int) -> Any:
        seconds = PATIENCE * remote.crowded()
        end = time.monotonic() + seconds
        with self._seen_to_end(rank):
            while not self.lines[rank].poll(LOOK_AFTER):
                self.troupe.require_alive()
                if time.monotonic() > end:
                    raise Silent(rank, f"computed for {seconds:.0f} s without a call")
            return self.lines[rank].recv()

    @contextmanager
    def _seen_to_end(self, rank: int) -> Iterator[None]:
        """Silent where the copy has ended."""
        try:
            yield
        except (EOFError, ConnectionError):
            self.troupe.require_alive()
            raise Silent(rank, "ended its process") from None


def _said(
    rank: int,
    stdout: str,
    stderr: str,
    displays: list[dict[str, str]],
    failure: tuple[str, str, list[str]] | None,
) -> Said:
    raised = None if failure is None else Failure(failure[0], cut(failure[1]), tuple(failure[2]))
    return Said(rank, stdout, stderr, tuple(displays), raised)
