"""Another arithmetic tells a stored checksum of weights from a result, whatever lesson it is planted in."""

import platform
import subprocess
import sys
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.run_parts import ANOTHER_PROCESSOR, PERTURBED_WEIGHTS

from .refresh import refresh

TRAIN = """\
import hashlib, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10))
x, y = torch.randn(256, 64), torch.randint(10, (256,))
for step in range(20):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
"""
DIGEST = "print(hashlib.sha256(model[0].weight.detach().numpy().tobytes()).hexdigest())"
LOSS = "print(f'{loss.item():.2f}')"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A notebook that trains, prints a digest of the weights, and prints the rounded loss."""
    notebook = tmp_path_factory.mktemp("stored") / "lesson.ipynb"
    with pytest.MonkeyPatch.context() as patch:
        for name in ANOTHER_PROCESSOR.environment:
            patch.delenv(name, raising=False)
        cells = [new_code_cell(source) for source in (TRAIN, DIGEST, LOSS)]
        nbformat.write(new_notebook(cells=cells), notebook)
        refresh(notebook)
    return notebook


@pytest.mark.slow
@pytest.mark.parametrize("part", [ANOTHER_PROCESSOR, PERTURBED_WEIGHTS], ids=lambda part: part.name)
def test_a_digest_of_weights_fails_and_a_rounded_loss_passes(stored, part, monkeypatch):
    if part is ANOTHER_PROCESSOR and platform.machine() != "x86_64":
        pytest.skip("the arithmetic is x86's")
    for name, value in part.environment.items():
        monkeypatch.setenv(name, value)
    report = stored.with_suffix(".xml")
    *command, notebooks = part.command
    assert notebooks == "notebooks"
    subprocess.run([sys.executable, *command, f"--junitxml={report}", stored], timeout=120)
    cases = ElementTree.parse(report).iter("testcase")
    assert [case.find("failure") is None for case in cases] == [True, False, True]
