"""Ctrl-C while figures are imported, which takes a while, costs that cell and nothing later."""

import subprocess
import sys

SCRIPT = """
import os, signal, sys, time

class InTheMidst:
    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.rcsetup" and not struck:
            struck.append(name)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)

struck = []
sys.meta_path.insert(0, InTheMidst())
try:
    import labkit.figures
except KeyboardInterrupt:
    print("interrupted")
from labkit.figures import curves
print("whole")
"""


def test_an_import_that_was_interrupted_can_be_done_again():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["interrupted", "whole"], done.stderr
