"""How the collectives of a communicator take turns: none begins before its ranks agree on it."""

from __future__ import annotations

from collections import deque
from typing import Any

from labkit.mpi.watched.agreement import Agreements
from labkit.mpi.watched.collective import Collective
from labkit.mpi.wire.runtime import MPI


class Turns(MPI.Intracomm):
    """Collectives wait in `queue` until all ranks have told each other what they call.

    In checked mode (`asks`), or where a communicator is made.
    """

    agreements: Agreements | None
    asks: bool
    queue: deque[Collective]

    def enter(self, call: Collective) -> None:
        """A collective comes to its turn at once, or waits for it."""
        if self.asks:
            self.wait_for_turn(call)
        else:
            call.post()

    def wait_for_turn(self, call: Collective) -> None:
        self.queue.append(call)
        self.pump()

    def pump(self: Any) -> None:
        """Let those at the head of the queue go on as far as they may."""
        queue, agreements = self.queue, self.agreements
        while queue:
            call = queue[0]
            try:
                if not call.asked:
                    agreements.ask(call)
                    call.asked = True
                if not agreements.reached(call):
                    self.world.busy[self.key] = self
                    return
                queue.popleft()
                call.post()
            except Exception as error:
                call.error = error
                if queue and queue[0] is call:
                    queue.popleft()
        self.world.busy.pop(self.key, None)
