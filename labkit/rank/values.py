"""What the namespaces of a notebook and its ranks give each other: it arrives, or a sentence does.

pickle knows a class or function by its name alone, and what a cell defined has none elsewhere. So these go
along themselves, by cloudpickle, which is safe here as pickle is: what arrives is signed with the key of the
lab. Where the other side has a class of that name too, as after `%%px --local`, the value is of that one.
"""

import hashlib
import io
import pickle
import re
import sys
from collections.abc import Callable
from functools import reduce
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle
from ipyparallel.serialize import serialize_object, unpack_apply_message
from ipyparallel.serialize.canning import CannedObject

from labkit import LabError
from labkit.rank.wording import cut

PARTS = "send what it consists of: numbers, tensors, its state_dict()"
HERE_TOO = "define or import its class on the other side too, as by %%px --local; or " + PARTS
_TRACKED = re.compile(rb"[0-9a-f]{32}")  # by which cloudpickle knows a class again, in each process another

_classes: WeakValueDictionary[bytes, type] = WeakValueDictionary()
"""Classes that came, by what defines them: equal ones of several ranks are one."""


class Lost(LabError):
    """A value that did not arrive, in its place."""


class Value(CannedObject):
    """A value on its way, as ipyparallel carries it, and what for. LabError if it cannot be pickled."""

    def __init__(self, value: Any, asked: str) -> None:
        self.asked = asked.format(kind(value))
        try:
            self.buffers: list[Any] = pickled(value)
        except (Exception, SystemExit) as error:
            raise LabError(self.asked, f"it cannot be pickled: {in_words(error)}", PARTS) from None

    def get_object(self, names: dict[str, Any] | None = None) -> Any:
        """The value, or a Lost: an exception would end in ipyparallel's loop, and nobody would hear it."""
        buffers = [bytes(self.buffers[0]), *map(bytearray, self.buffers[1:])]  # arrays that can be written to
        try:
            try:
                return _Unpickler(buffers, by_name=True).load()
            except Exception:  # the class of that name may be another one
                return _Unpickler(buffers, by_name=False).load()
        except BaseException as error:
            return Lost(self.asked, f"it cannot be made from what came: {in_words(error)}", HERE_TOO)


def install() -> None:
    """Send what cells have this way, on a rank from now on; a Lost that it gets goes back as the answer."""
    from ipyparallel.engine import datapub, kernel  # which a notebook has no use for

    from labkit.mpi.wire.runtime import WORLD

    def sent(value: Any, **thresholds: int) -> list[Any]:
        asked = f"to bring a {{}} of rank {WORLD.rank} to the notebook"
        try:
            return serialize_object(Value(value, asked), **thresholds)
        except LabError as error:
            return serialize_object(Value(error, asked), **thresholds)

    def unpacked(*args: Any, **options: Any) -> tuple[Callable[..., Any], tuple, dict[str, Any]]:
        function, arguments, named = unpack_apply_message(*args, **options)
        lost = next((v for v in (*arguments, *named.values()) if isinstance(v, Lost)), None)
        return (function, arguments, named) if lost is None else (lambda: lost, (), {})

    kernel.serialize_object, kernel.unpack_apply_message = sent, unpacked
    datapub.serialize_object = sent


def kind(value: Any) -> str:
    """The name of its class."""
    return getattr(type(value), "__qualname__", "value")


def in_words(error: BaseException) -> str:
    """An error as its class and message, also if that cannot be asked for it."""
    try:
        message = cut(str(error))
    except Exception:
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def pickled(value: Any) -> list[Any]:
    """The pickle, and then the memory of its arrays, which is not copied."""
    file, arrays = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(file, frozenset(_themselves(value)), arrays.append).dump(value)
    return [file.getvalue(), *(array.raw() for array in arrays)]


def _themselves(value: Any) -> list[type]:
    """The classes that are sent as such, and not to take the one of that name that the other side has."""
    parts = value if type(value) in (list, tuple) else value.values() if type(value) is dict else [value]
    return [part for part in parts if isinstance(part, type)]


class _Pickler(cloudpickle.Pickler):
    """Writes classes of cells by name and definition, but for those of `whole`, and tensors as of the CPU."""

    def __init__(
        self, file: io.BytesIO, whole: frozenset[type], keep: Callable[[pickle.PickleBuffer], Any] | None
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=keep)
        self._whole, self._torch = whole, sys.modules.get("torch")

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, type):
            if thing.__module__ == "__main__" and thing not in self._whole:
                file = io.BytesIO()
                _Pickler(file, self._whole | {thing}, None).dump(thing)
                return of_a_cell, (thing.__qualname__, file.getvalue())
        elif self._torch is not None and isinstance(thing, self._torch.Tensor):
            if thing.is_cuda and not isinstance(thing, self._torch.nn.Parameter):  # whose data is one
                return thing.detach().cpu().requires_grad_(thing.requires_grad).__reduce_ex__(5)
        return super().reducer_override(thing)


def of_a_cell(name: str, definition: bytes) -> type:
    """A class of a cell by its definition: what pickle calls to make it."""
    key = hashlib.sha256(_TRACKED.sub(b"", definition)).digest()
    return _classes.setdefault(key, _Unpickler([definition], by_name=False).load())


class _Unpickler(pickle.Unpickler):
    """Reads them: `by_name`, a class that `__main__` has by that name is taken."""

    def __init__(self, buffers: list[Any], by_name: bool) -> None:
        super().__init__(io.BytesIO(buffers[0]), buffers=buffers[1:])
        self._by_name = by_name
        self._made: list[FunctionType] = []

    def load(self) -> Any:
        value, names = super().load(), sys.modules["__main__"].__dict__
        for function in self._made:  # which find what they had, and then what is here: rank, torch
            for name in names.keys() - function.__globals__.keys():
                function.__globals__[name] = names[name]
        return value

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if found is of_a_cell and self._by_name:
            return _here_or_else
        return self._noted(found) if name == "_make_function" else found

    def _noted(self, make: Callable[..., FunctionType]) -> Callable[..., FunctionType]:
        def made(*args: Any, **options: Any) -> FunctionType:
            self._made.append(make(*args, **options))
            return self._made[-1]

        return made


def _here_or_else(name: str, definition: bytes) -> type:
    here = reduce(lambda at, part: getattr(at, part, None), name.split("."), sys.modules["__main__"])
    return here if isinstance(here, type) else of_a_cell(name, definition)
