"""A real kernel with a lab, asked as a front end asks it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import WITHIN


class Kernel:
    """`run(cell)` returns what the front end gets; the rest are questions of somebody who types."""

    def __init__(self, client):
        self._client = client
        self.number = 0  # that the front end shows beside the last cell that was run

    def run(self, cell: str, *typed: str, within: float = 150.0) -> list[dict]:
        """The outputs of a cell: stream, display_data, update_display_data, error, clear_output.

        `typed` is what somebody types where the cell asks for input.
        """
        outputs: list[dict] = []
        lines = iter(typed)

        def note(message):
            kind = message["header"]["msg_type"]
            if kind not in ("status", "execute_input"):
                outputs.append({"output_type": kind, **message["content"]})

        reply = self._client.execute_interactive(
            cell,
            timeout=within,
            output_hook=note,
            allow_stdin=bool(typed),
            stdin_hook=lambda message: self._client.input(next(lines)),
        )
        self.number = reply["content"]["execution_count"]
        return outputs

    def text(self, cell: str) -> str:
        """What a cell displays as text."""
        return "\n".join(o["data"]["text/plain"] for o in self.run(cell) if "data" in o)

    @contextmanager
    def having(self, name: str, value: object) -> Iterator[None]:
        """In the kernel "labkit.module.NAME" has another value for a while."""
        self.run(f"import {name.rpartition('.')[0]}\n_before = {name}\n{name} = {value!r}")
        try:
            yield
        finally:
            self.run(f"{name} = _before")

    def during(self, cell: str, ask: Callable[[], Any], end: Path) -> Any:
        """What somebody is told who asks while a cell runs, which lasts until that file is there."""
        running = self._client.execute(cell)
        try:
            return ask()
        finally:
            end.touch()
            while self._client.get_shell_msg(timeout=WITHIN)["parent_header"].get("msg_id") != running:
                pass

    def complete(self, cell: str) -> list[str]:
        """What Tab offers where a cell has `|`."""
        reply = self._client.complete(cell.replace("|", ""), cell.index("|"), reply=True, timeout=WITHIN)
        return reply["content"]["matches"]

    def inspect(self, cell: str, detail: int = 0) -> str:
        """What Shift+Tab shows where a cell has `|`."""
        asked = cell.replace("|", ""), cell.index("|"), detail
        reply = self._client.inspect(*asked, reply=True, timeout=WITHIN)
        return reply["content"]["data"].get("text/plain", "")


@pytest.fixture(scope="session")
def kernel():
    """A kernel whose notebook has a lab of two ranks."""
    from jupyter_client.manager import start_new_kernel  # not there where only the backend is tested

    manager, client = start_new_kernel(startup_timeout=150, env=os.environ | {"LABKIT_SPARE": "0"})
    try:
        opened = Kernel(client)
        assert opened.run("import labkit\nlab = labkit.start(2)") == []
        yield opened
        opened.run("lab.stop()")
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
