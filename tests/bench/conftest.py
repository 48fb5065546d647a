"""What `make bench` measures and prints, for the tests of each benchmark."""

import json
from collections.abc import Callable

import pytest

from tests.bench.__main__ import main


@pytest.fixture
def measured(tmp_path, capsys) -> Callable[..., tuple[dict, str]]:
    """Runs `make bench` with these arguments: what it has written as JSON, and what it has printed."""

    def measure(*arguments: str) -> tuple[dict, str]:
        file = tmp_path / "found.json"
        assert main([*arguments, "--json", str(file)]) == 0
        return json.loads(file.read_text()), capsys.readouterr().out

    return measure
