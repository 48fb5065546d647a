"""Ctrl-C while figures are imported, which takes a while, costs that cell and nothing later."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, time
from numpy.lib import NumpyVersion

struck = []

def strike():
    if not struck:
        struck.append(True)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)

class WhereItIsLookedUp:
    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.rcsetup":
            strike()

class WhereItAsksFromC:
    "An extension asks for numpy's version; what is raised there, Python's import turns into an ImportError."
    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.backends._backend_agg":
            NumpyVersion.__init__ = lambda made, version: strike() or ask(made, version)

ask = NumpyVersion.__init__
sys.meta_path.insert(0, eval(sys.argv[1])())
try:
    import labkit.figures
except KeyboardInterrupt:
    print("interrupted")
from labkit.figures import curves
print("whole" if struck else "never struck")
"""


@pytest.mark.parametrize("where", ["WhereItIsLookedUp", "WhereItAsksFromC"])
def test_an_import_that_was_interrupted_can_be_done_again(where):
    done = subprocess.run([sys.executable, "-c", SCRIPT, where], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["interrupted", "whole"], done.stderr
