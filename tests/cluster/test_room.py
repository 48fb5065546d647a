"""Who may start now, and what the others are told."""

import asyncio
from types import SimpleNamespace

import psutil
import pytest

from cluster.hub import room
from cluster.hub.room import GB, Room


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(room, "LOOK_EVERY", 0.01)


def small(places: int, at_once: int = 100) -> Room:
    """Room for so many, of whom none takes memory."""
    return Room(places, 0, 0, at_once)


async def until(come) -> None:
    async with asyncio.timeout(30) if hasattr(asyncio, "timeout") else _nothing():
        while not come():
            await asyncio.sleep(0.01)


class _nothing:
    """asyncio.timeout, where Python has none yet; the test's own deadline is left."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


def test_first_come_first_served():
    async def play() -> list[str]:
        here, came = small(1), []

        async def one(name: str) -> None:
            await here.turn(name)
            came.append(name)

        await here.turn("first")
        tasks = [asyncio.create_task(one(name)) for name in ("second", "third", "fourth")]
        await until(lambda: len(here.waiting) == 3)
        assert "all 1 places are taken. You are number 2 in the queue" in here.told("third")
        for leaving in ("first", "second", "third"):
            here.leave(leaving)
            await until(lambda: here.taken)
        await asyncio.gather(*tasks)
        assert here.told("fourth") == ""
        return came

    assert asyncio.run(play()) == ["second", "third", "fourth"]


def test_who_gives_up_waiting_leaves_the_queue():
    async def play() -> Room:
        here = small(1)
        await here.turn("first")
        waiting = asyncio.create_task(here.turn("second"))
        await until(lambda: here.waiting)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return here

    here = asyncio.run(play())
    assert here.waiting == [] and here.taken == {"first"}


def test_some_start_at_a_time_however_many_places_there_are():
    async def play() -> None:
        here = small(10, at_once=1)
        await here.turn("first")
        waiting = asyncio.create_task(here.turn("second"))
        await until(lambda: "others are just starting" in here.told("second").lower())
        here.is_up("first")
        await waiting
        assert here.taken == {"first", "second"}

    asyncio.run(play())


def test_memory_that_others_use_is_no_place(monkeypatch):
    free = SimpleNamespace(available=3 * GB, total=32 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    assert Room(10, GB, GB).lacks() == ""
    free.available = int(1.5 * GB)
    assert "1.5 GB are free" in Room(10, GB, GB).lacks()


def test_places_are_what_the_memory_holds_with_a_tenth_to_spare(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=0, total=32 * GB))
    assert Room.of_this_machine(0, GB).places == 28
    assert Room.of_this_machine(5, GB).places == 5
    assert Room.of_this_machine(0, 100 * GB).places == 1
