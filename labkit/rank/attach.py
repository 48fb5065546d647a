"""A debugger from outside attached to this rank: debugpy, which VS Code and others speak to."""

from __future__ import annotations

_address: tuple[str, int] | None = None


def listen() -> tuple[str, int]:
    """Wait for one from now on, at this address of this host's loopback; the same each time."""
    global _address
    if _address is None:
        import debugpy

        host, port = debugpy.listen(("127.0.0.1", 0))
        _address = host, port
    return _address
