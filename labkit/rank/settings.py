"""Settings of a process that cells may change: as at the start for a check, and then put back.

Under `torch.set_default_dtype(torch.float64)` the numbers that a check draws are others, and a right answer
to them would be refused.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy
import torch

_FILTERS = [each for each in warnings.filters if each[0] != "error"]
_LIMIT, _NUMPY = sys.getrecursionlimit(), numpy.geterr()


@dataclass(frozen=True)
class Setting:
    """How it is read and written, and what it is `at_start`."""

    read: Callable[[], Any]
    write: Callable[[Any], object]
    at_start: Any


def _of(module: Any, name: str, at_start: Any) -> Setting:
    """A setting that is an attribute of a module."""
    return Setting(lambda: getattr(module, name), lambda value: setattr(module, name, value), at_start)


def _default_device() -> torch.device | None:
    """None: torch's own, which is the CPU too, and costs nothing."""
    device = torch.get_default_device()
    return None if device.type == "cpu" else device


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _autocast(device: str) -> Setting:
    return Setting(
        lambda: torch.is_autocast_enabled(device), lambda on: torch.set_autocast_enabled(device, on), False
    )


def _write_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()  # which also has Python look at them anew
    warnings.filters[:] = filters  # type: ignore[index]


SETTINGS = (
    Setting(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    Setting(_default_device, torch.set_default_device, None),
    Setting(torch.is_grad_enabled, torch.set_grad_enabled, True),
    Setting(torch.get_num_threads, torch.set_num_threads, 1),
    Setting(
        _deterministic,
        lambda both: torch.use_deterministic_algorithms(both[0], warn_only=both[1]),
        (False,) * 2,
    ),
    Setting(_anomaly, lambda both: torch.autograd.set_detect_anomaly(*both), (False, True)),
    Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
    Setting(torch.is_warn_always_enabled, torch.set_warn_always, False),
    _autocast("cpu"),
    _autocast("cuda"),
    _of(torch.backends.cudnn, "deterministic", False),
    _of(torch.backends.cudnn, "benchmark", False),
    Setting(numpy.geterr, lambda kinds: numpy.seterr(**kinds), _NUMPY),
    Setting(sys.getrecursionlimit, sys.setrecursionlimit, _LIMIT),
    Setting(lambda: list(warnings.filters), _write_filters, _FILTERS),
)


def reset() -> None:
    """Set all as at the start, and how numbers are printed, which nobody can read."""
    for setting in SETTINGS:
        setting.write(setting.at_start)
    torch.set_flush_denormal(False)
    torch.set_printoptions(profile="default", sci_mode=None)
    numpy.set_printoptions(
        precision=8, threshold=1000, edgeitems=3, linewidth=75, suppress=False, formatter=None, sign="-",
        floatmode="maxprec", nanstr="nan", infstr="inf", legacy=False,
    )  # fmt: skip


@contextmanager
def as_at_start() -> Iterator[None]:
    """Set those as at the start that are not, and put them back at the end."""
    inference = torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()
    with inference:
        before = [(setting, setting.read()) for setting in SETTINGS]
        try:
            for setting, was in before:
                if was != setting.at_start:
                    setting.write(setting.at_start)
            yield
        finally:
            for setting, was in before:
                if setting.read() != was:
                    setting.write(was)
