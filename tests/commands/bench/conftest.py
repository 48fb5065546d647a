"""What `labkit bench` measures and prints, for the tests of each benchmark."""

import json
from collections.abc import Callable

import pytest

from labkit.commands.__main__ import main


@pytest.fixture
def measured(tmp_path, capsys) -> Callable[..., tuple[dict, str]]:
    """Runs `labkit bench` with these arguments: what it has written as JSON, and what it has printed."""

    def measure(*arguments: str) -> tuple[dict, str]:
        file = tmp_path / "found.json"
        assert main(["bench", *arguments, "--json", str(file)]) == 0
        return json.loads(file.read_text()), capsys.readouterr().out

    return measure
