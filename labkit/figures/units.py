"""Seconds and bytes in units that a reader can say."""

Units = tuple[tuple[float, str], ...]
"""(seconds or bytes in it, its name) of each, the largest first."""

TIME: Units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
BYTES: Units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


def unit(most: float, units: Units = TIME) -> tuple[float, str]:
    """The unit in which the largest number of an axis is 1 or more: (seconds or bytes in it, its name)."""
    return next((one for one in units if most >= one[0]), units[-1])


def duration(seconds: float) -> str:
    """
    >>> duration(0.5), duration(0.0123), duration(4e-6)
    ('500 ms', '12.3 ms', '4 µs')
    """
    return _said(seconds, TIME)


def size(count: float) -> str:
    """
    >>> size(8), size(65536)
    ('8 bytes', '65.5 kB')
    """
    return _said(count, BYTES)


def _said(number: float, units: Units) -> str:
    scale, name = unit(abs(number), units)
    return f"{short(number / scale)} {name}"


def short(number: float) -> str:
    """Three digits, never as a power of ten.

    >>> short(0.12345), short(16), short(16384)
    ('0.123', '16', '16384')
    """
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"
