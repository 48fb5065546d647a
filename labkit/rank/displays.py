"""What cells display on this rank, such that the notebook can tell what is left of it in the end.

ipyparallel carries text and displays apart from each other, and no order to clear or to update any. So both
are told by displays that say it, and a clear by a mark in each text too. A widget is shown as text, as it is
when the cell ends: nobody could move it.
"""

import sys
from typing import Any

import comm
from IPython.core.interactiveshell import InteractiveShell

from labkit.rank.protocol import CLEAR, CLEARED, WIDGET

DEAF = "(a widget of a rank: clicks in the notebook do not reach it; set its value in a cell)"

_shown: dict[str, Any] = {}
"""The widgets that this cell has displayed."""


def install(shell: InteractiveShell) -> None:
    """Do so from now on in what this thread displays."""
    comm.create_comm = comm.DummyComm  # nobody is at the other end of a rank's widgets
    shell.display_pub.register_hook(_told)
    if hasattr(shell.displayhook, "register_hook"):
        shell.displayhook.register_hook(_with_note)
    shell.events.register("post_run_cell", lambda result: _update_widgets(shell))


def _told(message: dict[str, Any]) -> dict[str, Any]:
    content, kind = message["content"], message["header"]["msg_type"]
    if kind == "clear_output":
        wait = content["wait"]
        for stream in (sys.stdout, sys.stderr):
            stream.write(CLEAR[wait])
            stream.flush()
        content = message["content"] = {"data": {CLEARED: wait}, "metadata": {}, "transient": {}}
    elif WIDGET in content["data"]:
        number = content["data"].pop(WIDGET)["model_id"]
        _shown[number] = _instance(number)
        content["transient"]["display_id"] = number
    content["transient"]["update"] = kind == "update_display_data"
    message["msg_type"] = message["header"]["msg_type"] = "display_data"
    return message


def _with_note(message: dict[str, Any]) -> dict[str, Any]:
    """The same of a cell's last expression."""
    data = message["content"]["data"]
    if WIDGET in data:
        data["text/plain"] += _note(_instance(data[WIDGET]["model_id"]))
    return message


def _instance(number: str) -> Any:
    return getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {}).get(number)


def _note(widget: Any) -> str:
    """What is to be said beside a widget that looks as if it could be used."""
    return f"\n{DEAF}" if _takes_input(widget) else ""


def _takes_input(widget: Any) -> bool:
    return hasattr(widget, "disabled") or any(map(_takes_input, getattr(widget, "children", ())))


def _update_widgets(shell: InteractiveShell) -> None:
    for number, widget in _shown.items():
        closed = widget is None or widget.comm is None  # and so has no text of its own
        text = "" if closed else repr(widget) + _note(widget)
        shell.display_pub.publish({"text/plain": text}, transient={"display_id": number}, update=True)
    _shown.clear()
