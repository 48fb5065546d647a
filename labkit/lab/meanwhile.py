"""Tab and Shift+Tab while a cell of ranks runs: the kernel's main thread, which else answers, waits for it.

ipykernel hands all requests of the front end to that thread, from one that receives them. While a cell of
ranks runs these two kinds are answered there and then, from what this kernel knows; and so are those that
came just before, and would now lie behind the cell.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

from ipykernel.jsonutil import json_clean
from IPython.core.interactiveshell import InteractiveShell


@contextmanager
def answered(shell: InteractiveShell) -> Iterator[None]:
    """The main thread waits for ranks in the block; in a notebook its questions are answered all the same."""
    kernel = getattr(shell, "kernel", None)
    with nullcontext() if kernel is None else _receiver(kernel).waits():
        yield


class Receiver:
    """Takes all requests of one kernel, and answers some while `waits()` is entered."""

    def __init__(self, kernel: Any) -> None:
        self._kernel, self._parent = kernel, None
        self._handed_on: dict[str, Question] = {}  # to the main thread, which has not come to them
        receiver = kernel.shell_channel_thread
        if receiver is not None:
            for kind in _QUESTIONS:
                kernel.shell_handlers[kind] = partial(self._unless_answered, kernel.shell_handlers[kind])
            receiver.io_loop.add_callback(kernel.shell_stream.on_recv, self._receive, copy=False)

    @contextmanager
    def waits(self) -> Iterator[None]:
        self._parent = self._kernel.get_parent("shell")
        if self._handed_on:
            self._kernel.shell_channel_thread.io_loop.add_callback(self._answer_all)
        try:
            yield
        finally:
            self._parent = None

    async def _receive(self, frames: list[Any]) -> None:
        question = self._question(frames)
        if question is not None:
            self._handed_on[question[1]["header"]["msg_id"]] = question
            if self._parent is not None:
                await self._answer_all()
                return
        await self._kernel.shell_channel_thread_main(frames)

    def _question(self, frames: list[Any]) -> "Question | None":
        """Who asks, and what, if it is a question of somebody who types."""
        session = self._kernel.session
        try:
            who, parts = session.feed_identities(frames, copy=False)
            asked = session.deserialize(parts, content=False, copy=False)  # so that it can be read once more
            if asked["header"]["msg_type"] not in _QUESTIONS:
                return None
            return who, asked | {"content": session.unpack(asked["content"])}
        except Exception:  # whatever is wrong with it, ipykernel tells
            return None

    async def _answer_all(self) -> None:
        while self._handed_on:
            await self._answer(*self._handed_on.popitem()[1])

    def _unless_answered(self, handler: Callable[..., Any], stream: Any, who: Any, asked: Any) -> Any:
        """The main thread has come to a question."""
        mine = self._handed_on.pop(asked["header"]["msg_id"], None)
        return None if mine is None else handler(stream, who, asked)

    async def _answer(self, who: list[bytes], asked: dict[str, Any]) -> None:
        kernel, running = self._kernel, self._parent
        kernel._publish_status("busy", "shell", asked)
        ask = _QUESTIONS[asked["header"]["msg_type"]]
        reply = await asyncio.to_thread(ask, kernel, asked["content"])
        kind = asked["header"]["msg_type"].replace("request", "reply")
        kernel.session.send(kernel.shell_stream, kind, json_clean(reply), asked, who)
        kernel._publish_status("idle", "shell", asked)
        if self._parent is running:  # for a front end that shows the last state that it was told
            kernel._publish_status("busy", "shell", running)


Question = tuple[list[bytes], dict[str, Any]]
_receiver = cache(Receiver)
_QUESTIONS = {
    "complete_request": lambda kernel, asked: kernel.do_complete(asked["code"], asked["cursor_pos"]),
    "inspect_request": lambda kernel, asked: kernel.do_inspect(
        asked["code"], asked["cursor_pos"], asked.get("detail_level", 0)
    ),
}
