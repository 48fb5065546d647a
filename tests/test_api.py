"""The public API is what `__all__` says, and fits on one screen."""

import types
from pathlib import Path

import labkit


def test_all_names_what_is_there():
    public = {
        name
        for name, value in vars(labkit).items()
        if name[0] != "_" and not isinstance(value, types.ModuleType)
    }
    assert public == set(labkit.__all__)


def test_every_public_name_is_documented():
    for name in labkit.__all__:
        assert getattr(labkit, name).__doc__, name


def test_one_screen():
    assert len(Path(labkit.__file__).read_text().splitlines()) <= 50
