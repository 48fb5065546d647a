"""What `lab[0]` and `lab[:]` are: ipyparallel's views, whose values arrive, or one LabError does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pickle import PicklingError
from types import FunctionType
from typing import Any, cast

import ipyparallel as ipp
from ipyparallel.client import asyncresult
from ipyparallel.client.remotefunction import getname
from ipyparallel.serialize import PrePickled
from ipyparallel.serialize.canning import CannedObject
from jupyter_client.session import MAX_ITEMS

from labkit import LabError
from labkit.rank.values import PARTS, Value, in_words, kind

LOOK_AFTER = 0.25
"""Seconds between two looks at whether all ranks live, while a value is waited for."""
GIVE = "to give ranks a {}"
"""What a value is sent for, by its kind."""
_BY_NAME = (FunctionType, partial, CannedObject, PrePickled)
"""What ipyparallel sends in its own way: a function is one of the rank's namespace there."""


class View(ipp.DirectView):
    """A view of the ranks of a lab, which says when they have died."""

    def __init__(self, client: ipp.Client, targets: Any, require_alive: Callable[[], None]) -> None:
        super().__init__(client=client, socket=client._mux_stream, targets=targets)
        self._require_alive = require_alive

    def __setitem__(self, name: str, value: Any) -> None:
        """Give ranks a value, and see it arrive, unless they are busy: then it does after what they run."""
        self.push({name: value}, block=not self.client.outstanding)

    def map(self, f: Any, *sequences: Any, **options: Any) -> Any:
        """As ipyparallel's, of which large parts are pickled as they are."""
        try:
            return super().map(f, *map(_items, sequences), **options)
        except (PicklingError, AttributeError, TypeError) as error:
            raise LabError("to map over ranks", f"{in_words(error)}", PARTS) from None

    def _really_apply(
        self, f: Any, args: Any = None, kwargs: Any = None, targets: Any = None, block: bool | None = None,
        track: bool | None = None, label: str | None = None,
    ) -> Any:  # fmt: skip
        function = _packed(f)
        function.__name__ = getname(f)
        arguments = [_packed(value) for value in args or ()]
        named = {name: _packed(value) for name, value in (kwargs or {}).items()}
        sent = super()._really_apply(function, arguments, named, targets, False, track, label)
        if not (self.block if block is None else block):
            return sent
        while not sent.wait(LOOK_AFTER):
            self._require_alive()
        return sent.get()


def _items(sequence: Any) -> Any:
    """A list of what may need its class to go along, where each of it is looked at on its way."""
    plain = type(sequence) not in (list, tuple) or len(sequence) >= MAX_ITEMS
    return sequence if plain else [x if isinstance(x, _BY_NAME) else Value(x, GIVE) for x in sequence]


def _packed(value: Any) -> PrePickled:
    """A value as it is sent. LabError if it cannot be pickled."""
    parts = value if type(value) in (list, tuple, set) else value.values() if type(value) is dict else [value]
    if not any(isinstance(part, _BY_NAME) for part in parts):
        return PrePickled(Value(value, GIVE))
    try:
        return PrePickled(value)
    except Exception as error:
        found = f"it cannot be pickled: {in_words(error)}"
        raise LabError(GIVE.format(kind(value)), found, PARTS) from None


def _collected(results: list[Any], *about: str) -> list[Any]:
    """The results if none is an exception. LabError of the first that has one, else ipyparallel's of all."""
    for result in results:
        if isinstance(result, LabError):
            raise result
    return cast("list[Any]", _all_raised(results, *about))


_all_raised = asyncresult.error.collect_exceptions
asyncresult.error.collect_exceptions = _collected
