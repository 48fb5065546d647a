"""Who may start now: as many servers as the machine has room for; whoever comes later waits in a queue."""

import asyncio
from dataclasses import dataclass, field

import psutil

GB = 2**30
LOOK_EVERY = 1.0
"""Seconds between two looks at whether there is room."""


@dataclass
class Room:
    """Places on this machine. `place` is what a learner with a lab takes, `reserve` what must stay free."""

    places: int
    place: int
    reserve: int
    at_once: int = 2
    """How many may be starting at the same time: each takes a core for some seconds."""
    taken: set[str] = field(default_factory=set)
    starting: set[str] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)

    @classmethod
    def of_this_machine(cls, places: int, place: int) -> "Room":
        """`places` of 0: as many as the memory holds, with a tenth of it to spare."""
        memory = psutil.virtual_memory().total
        reserve = memory // 10
        return cls(
            places or max(1, (memory - reserve) // place), place, reserve, max(2, psutil.cpu_count() or 2)
        )

    def lacks(self) -> str:
        """Why nobody else can begin now; "" if somebody can."""
        if len(self.taken) >= self.places:
            return f"the server is full: all {self.places} places are taken"
        free = psutil.virtual_memory().available
        if free < self.place + self.reserve:
            return f"the server's memory is in use: {free / GB:.1f} GB are free, of which none can be spared"
        return "others are just starting" if len(self.starting) >= self.at_once else ""

    def told(self, name: str) -> str:
        """What somebody in the queue is told; "" for who is not in it."""
        if name not in self.waiting:
            return ""
        place = self.waiting.index(name) + 1
        why = self.lacks() or "others are before you"
        return f"{why[0].upper()}{why[1:]}. You are number {place} in the queue; this page goes on by itself."

    async def turn(self, name: str) -> None:
        """Wait until it is this learner's turn, and take a place."""
        self.waiting.append(name)
        try:
            while self.waiting[0] != name or self.lacks():
                await asyncio.sleep(LOOK_EVERY)
        finally:
            self.waiting.remove(name)
        self.taken.add(name)
        self.starting.add(name)

    def is_up(self, name: str) -> None:
        """The server answers: the next one may begin."""
        self.starting.discard(name)

    def leave(self, name: str) -> None:
        """The place is free again."""
        self.taken.discard(name)
        self.starting.discard(name)
