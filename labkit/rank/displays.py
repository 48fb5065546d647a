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

_shown: dict[str, Any] = {}
"""The widgets that this cell has displayed."""


def install(shell: InteractiveShell) -> None:
    """Do so from now on in what this thread displays."""
    comm.create_comm = comm.DummyComm  # nobody is at the other end of a rank's widgets
    shell.display_pub.register_hook(_told)
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
        _shown[number] = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {}).get(number)
        content["transient"]["display_id"] = number
    content["transient"]["update"] = kind == "update_display_data"
    message["msg_type"] = message["header"]["msg_type"] = "display_data"
    return message


def _update_widgets(shell: InteractiveShell) -> None:
    for number, widget in _shown.items():
        text = "" if widget is None or widget.comm is None else repr(widget)  # none of its own: it was closed
        shell.display_pub.publish({"text/plain": text}, transient={"display_id": number}, update=True)
    _shown.clear()
