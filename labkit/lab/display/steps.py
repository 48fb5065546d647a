"""The steps of a history: the last of them as a table, all of them with a slider where somebody watches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from labkit.rank.protocol import WAITING
from labkit.rank.wording import ranks
from labkit.trace.table import Table

if TYPE_CHECKING:
    from labkit.lab.history import History, Message, Turn

COLUMNS = ("step", "ranks", "call", "line", "then")
LAST = 8
"""Steps that the table shows."""


def table(history: History) -> Table:
    """A line for ranks that do the same, and for each message that is received or still under way."""
    first = max(0, len(history.steps) - LAST)
    rows = [row for k in range(first, len(history.steps)) for row in _rows(history, k)]
    return Table([COLUMNS, *rows])


def text(history: History) -> str:
    """The table, after a line that says which part of the history it is."""
    count = len(history.steps)
    shown = f"the last {LAST} of {count} steps" if count > LAST else f"{count} step{'s' * (count != 1)}"
    more = ", and there were more before" if history.forgotten else ""
    said = "; ".join(filter(None, [shown + more, verdict(history)]))
    return f"{said}\n{table(history)}" if count else "the ranks had called nothing"


def verdict(history: History) -> str:
    """From when on which ranks could not go on; "" if none was stuck."""
    if history.stuck_from is None:
        return ""
    return f"from step {history.stuck_from + 1} on {ranks(history.stuck)} could never go on"


def drawn(history: History) -> list[dict[str, Any]]:
    """The steps as the widget draws them: what each rank does, and messages from step to step."""
    return [
        {
            "turns": [_words(history, k, turn) for turn in step.turns],
            "received": [asdict(message) for message in step.received],
            "under_way": [asdict(message) for message in step.under_way],
        }
        for k, step in enumerate(history.steps)
    ]


def _rows(history: History, k: int) -> Iterator[tuple[str, ...]]:
    step, number = history.steps[k], str(k + 1)
    for who, words in _together(history, k).items():
        yield number, who, words["what"], words["place"], words["then"]
        number = ""
    for message in step.received:
        if message.step < k:
            yield _of_message(message, f"received: sent in step {message.step + 1}")
    for message in step.under_way:
        yield _of_message(message, "nobody has received it yet")


def _of_message(message: Message, then: str) -> tuple[str, ...]:
    tag = f" with tag {message.tag}" if message.tag > 0 else ""
    return "", "", f"message from {message.source} to {message.to}{tag}", message.place, then


def _together(history: History, k: int) -> dict[str, dict[str, str]]:
    """What ranks do in a step, by who does the same."""
    found: list[tuple[dict[str, str], list[int]]] = []
    for turn in history.steps[k].turns:
        words = _words(history, k, turn)
        who = next((who for same, who in found if same == words), [])
        if not who:
            found.append((words, who))
        who.append(turn.state.rank)
    return {ranks(who).partition(" ")[2]: words for words, who in found}


def _words(history: History, k: int, turn: Turn) -> dict[str, str]:
    state = turn.state
    if state.doing != WAITING:
        return {"what": state.doing, "place": state.place, "then": ""}
    what = f"the end of {state.what()}" if turn.of_before else state.what()
    never = history.stuck_from is not None and k >= history.stuck_from and state.rank in history.stuck
    then = "goes on" if turn.goes_on else "waits for ever" if never else "waits"
    return {"what": what, "place": state.place, "then": then}
