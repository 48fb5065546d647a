"""A lab that outlives its notebook: one per JupyterLab server, held by the notebook that called start last.

`labkit lab` names itself in LABKIT_SERVER, which its kernels inherit. Then a lab belongs to the
server: a kernel that calls `start` adopts it, ready at once, and a kernel that ends leaves it running.
Without that variable a lab belongs to its kernel and ends with it.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from labkit import LabError
from labkit.launch import Plan, keeper, private, processes
from labkit.launch.engines import RUNTIME, Engines

SERVER = "LABKIT_SERVER"
_CARD = "lab.json"


def is_shared() -> bool:
    """Whether labs here belong to a JupyterLab server."""
    return processes.parse(os.environ.get(SERVER, "0 0")) is not None


def find_or_start(plan: Plan, spare: Callable[[Plan], Engines | None]) -> tuple[Engines, bool]:
    """The server's running lab if it is of that plan, or a new one; and whether it was adopted.

    `spare` gives engines that were prepared for that plan, if there are any.
    """
    if not is_shared():
        return _new(plan, processes.identity(psutil.Process()), spare), False
    for card in RUNTIME.glob(f"*/{_CARD}"):
        told = _told(card) if private.is_mine(card.parent) else {}
        if told.get("server") != os.environ[SERVER]:
            continue
        if told["plan"] == repr(plan):
            engines = Engines.attach(plan, card.parent)
            if engines is not None:
                return engines, True
        Engines(plan, card.parent).stop()  # one lab per server
    engines = _new(plan, os.environ[SERVER], spare)
    card = engines.folder / _CARD
    private.write(card, json.dumps({"server": os.environ[SERVER], "plan": repr(plan)}))
    take(engines.folder)
    return engines, False


def _new(plan: Plan, owner: str, spare: Callable[[Plan], Engines | None]) -> Engines:
    engines = spare(plan)
    if engines is None:
        return Engines.start(plan, owner)
    engines.belong_to(owner)
    return engines


def take(folder: Path) -> None:
    """Note that this notebook has the lab now."""
    if is_shared():
        me = {"pid": os.getpid(), "name": os.environ.get("JPY_SESSION_NAME", "a notebook"), "at": time.time()}
        private.write(folder / keeper.HOLDER, json.dumps(me))


def require_mine(folder: Path) -> None:
    """LabError if another notebook has taken the lab; else note that it is in use."""
    holder = folder / keeper.HOLDER
    if not is_shared():
        return
    told = _told(holder)
    if not told:  # nobody can say who has it
        take(folder)
    elif told["pid"] != os.getpid():
        since = time.strftime("%H:%M", time.localtime(told["at"]))
        raise LabError(
            "a cell on the ranks of this notebook",
            f"{Path(told['name']).name} has had them since {since}",
            "labkit.start() takes them back",
        )
    os.utime(holder)  # an idle lab is ended after a while


def _told(file: Path) -> dict[str, Any]:
    """What such a file says; nothing if it is gone, or was torn by a full disk."""
    with suppress(OSError, ValueError):
        told = json.loads(file.read_text())
        return told if isinstance(told, dict) else {}
    return {}
