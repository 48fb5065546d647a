"""The controller of a lab is one process, whose end is noticed; it leaves ranks that are there alone."""

import asyncio

import zmq
from tornado.ioloop import PeriodicCallback
from zmq.eventloop.zmqstream import ZMQStream

from labkit.launch import heartbeat, processes


def test_a_controller_is_one_process(labs):
    """Its heart monitor had its own: killed while a lab started, no rank came, and nobody knew for 120 s."""
    (controller,) = processes.of_lab(labs(2)._engines.lab_id, module="ipyparallel.controller")
    assert controller.children() == []


def periods(*beats: tuple[set[bytes], float]) -> list[float]:
    """Milliseconds from each beat to the next: who answered the one before, and seconds since then."""

    async def beat() -> list[float]:
        with zmq.Context() as context:
            ping, pong, told = (ZMQStream(context.socket(kind)) for kind in (zmq.PUB, zmq.ROUTER, zmq.XPUB))
            monitor = heartbeat.Monitor(ping_stream=ping, pong_stream=pong, monitor_stream=told, period=100)
            monitor.caller = PeriodicCallback(monitor.beat, monitor.period)
            found = []
            for ranks, passed in beats:
                monitor._latest -= passed
                monitor.responses = ranks
                monitor.beat()
                found.append(monitor.caller.callback_time)
            for stream in (ping, pong, told):
                stream.close(linger=0)
        return found

    return asyncio.run(beat())


def test_beats_are_seldom_once_all_ranks_are_there_and_quick_when_one_comes():
    first, both, later = {b"0"}, {b"0", b"1"}, heartbeat.QUICK_FOR + 1
    told = periods((set(), 100.0), (first, 0), (first, 1), (first, later), (both, later), (both, later))
    assert told == [100, 100, 100, heartbeat.SELDOM, 100, heartbeat.SELDOM]
