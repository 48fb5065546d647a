"""One order: the ranks go on until all have ended or none can, and who meets whom is decided here. Pure.

A rank is let go on as soon as it can, and a message that only one receive can take is received. Only when
nobody can go on any more does a receive from anybody get its message: from the sender that was `decided` for
it, else from the lowest that has sent one. By then every message is there that does not hang on it.

What a message says is settled by its send, and seen after the wait of its receive. A program that writes to a
tensor before it has waited for its `isend`, or reads one before it has waited for its `irecv`, may see other
values: those that it sees if messages leave `late`, and are there early.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from labkit.lab.orders.board import Board, Disagreement, Name
from labkit.rank.protocol import Asked

Decisions: TypeAlias = Mapping[Name, int]
"""For a receive from anybody the sender whose message it gets."""


@dataclass(frozen=True)
class Calls:
    """A rank calls something, and goes on."""

    asked: Asked


@dataclass(frozen=True)
class Waits:
    """A rank waits for the operation of that number: `at_once`, as it called it, or when it had gone on.

    `only_looks`: it goes on too when nobody else can. `turns` as in Asked. `written_to` are its calls whose
    tensors were written to, and not waited for.
    """

    number: int
    only_looks: bool = False
    turns: int = 0
    at_once: bool = True
    written_to: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ends:
    """A rank has come to the end of its cell. `written_to` as in Waits."""

    how: Any
    written_to: tuple[int, ...] = ()


Request: TypeAlias = Calls | Waits | Ends


class Ranks(Protocol):
    """Ranks that run the cell from its beginning."""

    size: int

    def hear(self, rank: int) -> Request:
        """What a rank that goes on asks next."""
        ...

    def go_on(self, rank: int, name: Name, board: Board) -> None:
        """It does, for what it waited for is over, or (`only_looks`) nobody else can."""
        ...

    def refuse(self, rank: int, why: Disagreement) -> None:
        """It goes on with an error."""
        ...

    def leave(self, rank: int) -> Any:
        """It waits for ever: how it ends."""
        ...


@dataclass
class Played:
    """How an order went: the `course` of requests of each rank, what those who are `stuck` wait for, and how
    each has ended."""

    board: Board
    course: list[list[Request]]
    stuck: dict[int, Name] = field(default_factory=dict)
    hows: dict[int, Any] = field(default_factory=dict)

    @property
    def decisions(self) -> dict[Name, int]:
        return self.board.decided()


def play(ranks: Ranks, decided: Decisions, late: bool = False) -> Played:
    """Let the ranks run, with these receives decided."""
    board = Board(ranks.size)
    played = Played(board, [[] for _ in range(ranks.size)])
    waiting: dict[int, Waits] = {}
    going = list(range(ranks.size))
    while going:
        for rank in going:
            if (waits := _until_it_waits(ranks, rank, played)) is not None:
                waiting[rank] = waits
        while not (going := _who_can_go_on(ranks, board, waiting, decided, late)):
            receive = _next_to_decide(board, decided)
            if receive is None:
                break
            board.meet(receive, min(board.candidates(receive).items())[1])
        for rank in going:
            del waiting[rank]
    played.stuck = {rank: (rank, waits.number) for rank, waits in sorted(waiting.items())}
    played.hows |= {rank: ranks.leave(rank) for rank in played.stuck}
    return played


def _until_it_waits(ranks: Ranks, rank: int, played: Played) -> Waits | None:
    """Hear a rank until it waits (for what), or ends."""
    while True:
        request = ranks.hear(rank)
        played.course[rank].append(request)
        match request:
            case Calls(asked):
                played.board.ask(rank, asked)
            case Waits():
                return request
            case Ends(how):
                played.hows[rank] = how
                return None


def _who_can_go_on(
    ranks: Ranks, board: Board, waiting: Mapping[int, Waits], decided: Decisions, late: bool
) -> list[int]:
    """Let messages be received that can go to one receive only, and ranks go on that have waited for them."""
    _receive_what_is_certain(board, decided)
    names = {rank: (rank, waits.number) for rank, waits in waiting.items()}
    going = [rank for rank, name in names.items() if board.is_over(name, buffered=True)]
    if late:
        going = [rank for rank in going if not board.may_change(names[rank])] or going[:1]
        going = going or [rank for rank, waits in waiting.items() if waits.only_looks][:1]
    for rank in going:
        if board[names[rank]].is_collective() and (why := board.disagreement(names[rank])):
            ranks.refuse(rank, why)
        else:
            if not waiting[rank].only_looks:
                board.waited(names[rank])
            ranks.go_on(rank, names[rank], board)
    return going


def _receive_what_is_certain(board: Board, decided: Decisions) -> None:
    met = True
    while met:
        met = False
        for receive in list(board.receives()):
            source = decided.get(receive) if board.is_from_anybody(receive) else board.sources(receive)[0]
            send = board.candidates(receive).get(source) if source is not None else None
            if send is not None:
                board.meet(receive, send)
                met = True


def _next_to_decide(board: Board, decided: Decisions) -> Name | None:
    open_ = (r for r in board.receives() if board.is_from_anybody(r) and r not in decided)
    return next((receive for receive in open_ if board.candidates(receive)), None)
