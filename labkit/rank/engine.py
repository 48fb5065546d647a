"""What runs on every rank: join the world, then serve cells as an ipyparallel engine.

A rank registers only when it can communicate, so a lab that has started is ready.
"""

# ruff: noqa: E402
import gc

gc.disable()  # what is imported stays: to look through it again and again is a tenth of the start

import os
import signal
import sys
from dataclasses import asdict, replace
from typing import Any, NoReturn

import torch.distributed as dist
from ipyparallel.engine.app import IPEngine

from labkit.rank import (
    awaiting,
    below,
    cells,
    children,
    debugger,
    displays,
    gloo_messages,
    help,
    history,
    interrupts,
    leftovers,
    state,
    streams,
    tracebacks,
    values,
)
from labkit.rank.native_output import NativeOutput
from labkit.rank.protocol import STOPPED
from labkit.rank.world import (
    as_started,
    begin_as_programs_do,
    face_the_notebook,
    join_world,
    meet_without_a_port,
    name_itself,
    names,
    remove_mpi_files,
    seed,
    use_own_gpu,
    watch_mpi4py,
)


class RankEngine(IPEngine):
    """An ipyparallel engine whose namespace holds what a lesson needs and nothing else.

    Its control thread answers while a cell runs: `labkit_state_request` with what this rank does,
    `labkit_history_request` with what it has called,
    `labkit_interrupt_request` with a SIGINT to itself, which also ranks on other hosts can be sent,
    `labkit_debug_request` by a line for pdb or `input`, and between cells `labkit_help_request` with what
    names stand for.
    """

    def init_engine(self) -> None:
        self.out_stream_factory = NativeOutput
        super().init_engine()
        self.init_mpi = ""  # ipyparallel would put three names of its own into the namespace
        self.user_ns = names()

    async def complete_registration(self, *args: Any) -> None:
        sys.modules["debugpy"] = None  # for 0.2 s ipykernel would load a debugger, which no front end reaches
        await super().complete_registration(*args)
        del sys.modules["debugpy"]
        as_started()
        gc.freeze()  # else each clean start looks through all that torch has made, 0.1 s
        gc.enable()
        interrupts.install(self.kernel)
        leftovers.install(self.kernel)
        history.install()
        cells.install(self.kernel.shell)
        awaiting.install(self.kernel)
        tracebacks.install(self.kernel.shell, then=debugger.look_at)
        help.install(self.kernel.shell)
        displays.install(self.kernel.shell)
        begin_as_programs_do(leftovers.note)
        values.install()
        children.install()
        streams.install(self.kernel)
        self.kernel._abort_queues = lambda *args: None  # a failed cell must not swallow the next one
        self.kernel._publish_execute_input = lambda *args: None  # who has sent a cell knows it
        self.kernel.shell.ask_exit = self._leave_the_cell
        debugger.install(self.kernel)
        below.install()
        self.kernel.control_handlers["labkit_state_request"] = self._tell_state
        self.kernel.control_handlers["labkit_history_request"] = self._tell_history
        self.kernel.control_handlers["labkit_interrupt_request"] = self._interrupt
        self.kernel.control_handlers["labkit_help_request"] = self._help
        self.kernel.control_handlers["labkit_debug_request"] = self._debug

    def _leave_the_cell(self) -> NoReturn:
        """Do what exit() does in a script: nothing below it is run. IPython's would end the rank."""
        leftovers.note("exit() has ended the cell and not the rank; lab.stop() ends all ranks")
        raise SystemExit(self.kernel.shell.keepkernel_on_exit or 0)  # where IPython leaves exit's argument

    def _tell_state(self, stream: Any, ident: list[bytes], parent: dict[str, Any]) -> None:
        told = state.state(self.id)
        if stop := debugger.told():
            told = replace(told, doing=STOPPED, place=stop.place, stop=stop)
        content = {"status": "ok", "state": asdict(told)}
        self.session.send(stream, "labkit_state_reply", content, parent, ident=ident)

    def _tell_history(self, stream: Any, ident: list[bytes], parent: dict[str, Any]) -> None:
        content = {"status": "ok", "history": asdict(history.told())}
        self.session.send(stream, "labkit_history_reply", content, parent, ident=ident)

    def _interrupt(self, stream: Any, ident: list[bytes], parent: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        self.session.send(stream, "labkit_interrupt_reply", {"status": "ok"}, parent, ident=ident)

    def _help(self, stream: Any, ident: list[bytes], parent: dict[str, Any]) -> None:
        content = {"status": "ok", "answer": help.answer(*parent["content"]["question"])}
        self.session.send(stream, "labkit_help_reply", content, parent, ident=ident)

    def _debug(self, stream: Any, ident: list[bytes], parent: dict[str, Any]) -> None:
        debugger.command(parent["content"]["command"])
        self.session.send(stream, "labkit_debug_reply", {"status": "ok"}, parent, ident=ident)


def write_log_to(folder: str) -> None:
    """Write to files what is written outside of cells: mpiexec would carry it in clear text."""
    name = f"{folder}/ipengine-rank{dist.get_rank()}.log"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def main() -> None:
    face_the_notebook()
    join_world()
    remove_mpi_files()
    watch_mpi4py()
    gloo_messages.refuse_gpus()
    name_itself()
    meet_without_a_port()
    use_own_gpu()
    if "LABKIT_LOGS" in os.environ:
        write_log_to(os.environ["LABKIT_LOGS"])
    seed()
    RankEngine.launch_instance()
