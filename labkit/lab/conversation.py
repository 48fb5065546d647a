"""Ranks that wait for what is typed, and the notebook's input field: which one asks, and what pdb answers."""

import getpass
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from IPython.core.error import StdinNotImplementedError

from labkit.lab import remote
from labkit.lab.remote import Reachable
from labkit.rank.protocol import COMPUTING, State, Stop
from labkit.rank.wording import ranks

HELP = "pdb's commands go to one rank; `rank 2` turns to another, `all p x` asks all, `go` lets all go on"
NOBODY = "nobody can type here: the ranks go on"
TOGETHER = 0.3
"""Seconds within which ranks call `input` at once: they are answered in their order."""
ANSWERED = 0.3
"""Seconds after which a rank that was told to go on is not waited for: it computes, or waits for others."""


class Conversation:
    """What is said, during one cell, to ranks that have stopped."""

    def __init__(self, lab: Reachable, interrupted: threading.Event) -> None:
        self._lab, self._interrupted = lab, interrupted
        self._heard: dict[int, int] = {}  # the number of the last stop that was told, of each rank
        self._turned_to = -1
        self._nobody = False

    def hold(self, states: Sequence[State]) -> None:
        """Ask for commands until no rank is stopped, or the cell is interrupted."""
        while stopped := {s.rank: s.stop for s in states if s.stop}:
            told: Iterable[int]
            if any(stop.asks is not None for stop in stopped.values()):
                stopped = self._first_to_ask(states)
                told = [*stopped]
                for rank, stop in stopped.items():
                    line = self._typed(f"rank {rank} asks: {stop.asks}", stop.secret)
                    if not self._interrupted.is_set():
                        remote.tell_debugger(self._lab, told, line)
            else:
                self._tell(stopped)
                if self._turned_to not in stopped:
                    self._turned_to = min(stopped)
                line = self._ask()
                told = () if self._interrupted.is_set() else self._do(line.strip(), stopped, states)
            if self._interrupted.is_set():
                return
            states = self._after(told, stopped)

    def _first_to_ask(self, states: Sequence[State]) -> dict[int, Stop]:
        """The first rank that calls `input`, when those before it have had the time to come to it, too."""
        until = time.monotonic() + TOGETHER * remote.crowded()
        while True:
            asks = {s.rank: s.stop for s in states if s.stop and s.stop.asks is not None}
            first = min(asks, default=-1)
            if not asks:  # an interrupt has come between
                return {}
            if time.monotonic() > until or not any(_computes(s) and s.rank < first for s in states):
                return {first: asks[first]}
            time.sleep(0.02)
            now = remote.ask_states(self._lab, [s.rank for s in states])
            states = [now.get(s.rank, s) for s in states]

    def _tell(self, stopped: dict[int, Stop]) -> None:
        """What pdb has said, the same of several ranks once."""
        if not self._heard:
            print(HELP)
        news: dict[str, list[int]] = {}
        for rank, stop in stopped.items():
            if self._heard.get(rank) != stop.number:
                news.setdefault(stop.said, []).append(rank)
                self._heard[rank] = stop.number
        for said, who in news.items():
            if said:
                print(f"[{ranks(who)}] {said.rstrip()}")

    def _ask(self) -> str:
        could = not self._nobody
        line = self._typed(f"rank {self._turned_to} (Pdb) ")
        if could and self._nobody:
            print(NOBODY)
        return "go" if line is None else line

    def _typed(self, prompt: str, secret: bool = False) -> str | None:
        """The line that is typed; None if nobody can, or has interrupted the cell instead."""
        if self._nobody:
            return None
        try:
            with _interrupts_raised():
                return getpass.getpass(prompt) if secret else input(prompt)
        except KeyboardInterrupt:
            self._interrupted.set()
        except (StdinNotImplementedError, EOFError, OSError):
            self._nobody = True
        return None

    def _do(self, line: str, stopped: dict[int, Stop], states: Sequence[State]) -> Iterable[int]:
        """Which ranks were told something."""
        first, _, rest = line.partition(" ")
        if first == "rank" and rest.isdigit():
            self._turn_to(int(rest), stopped, states)
            return ()
        who, what = [self._turned_to], line
        if line == "go":
            who, what = list(stopped), "continue"
        elif first == "all":
            who, what = list(stopped), rest
        remote.tell_debugger(self._lab, who, what)
        return who

    def _turn_to(self, rank: int, stopped: dict[int, Stop], states: Sequence[State]) -> None:
        if rank in stopped:
            self._turned_to = rank
            print(f"[rank {rank}] {stopped[rank].place}")
            return
        doing = next(
            (f"it is {s.doing}, {s.place}" for s in states if s.rank == rank), "there is no such rank"
        )
        print(f"rank {rank} has not stopped: {doing}")

    def _after(self, told: Iterable[int], before: dict[int, Stop]) -> Sequence[State]:
        """What the ranks do when those that were told something have answered, or have gone on."""
        until = time.monotonic() + ANSWERED * remote.crowded()
        while not self._interrupted.is_set():
            self._lab.require_running()
            states = remote.ask_states(self._lab, list(range(len(self._lab.ranks))))
            now = {s.rank: s.stop.number for s in states.values() if s.stop}
            waited_for = [r for r in told if now.get(r, 0) == before[r].number]  # not yet begun
            going = [r for r in told if r not in now and _computes(states.get(r))]
            if states and not waited_for and (not going or time.monotonic() > until):
                return list(states.values())
            time.sleep(0.02)
        return ()


def _computes(state: State | None) -> bool:
    """Whether a rank does something in the cell, and may stop again soon."""
    return state is not None and state.doing == COMPUTING and bool(state.place)


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Ctrl-C is an exception while somebody is asked."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
