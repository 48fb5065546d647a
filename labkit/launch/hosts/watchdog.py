"""On each host of a lab, a small process that ends the lab's processes there when the lab is gone.

The keeper starts one per host through ssh and sends it a sign of life twice a second. It ends what
carries the lab's mark when it is told to, when the line is closed (the keeper or this machine is
gone), and when it has heard nothing for SILENCE seconds (the network is gone).
"""

import os
import select
import signal
import subprocess
import sys
import time

from labkit.launch import mpi_files, processes
from labkit.launch.hosts import ssh

SILENCE = 5.0
"""Seconds without a sign of life after which the other side is taken for gone."""
ARRIVAL = 15.0
"""Seconds within which the first sign must have come."""
_LIFE, _END = b".", b"!"


class Watchdog:
    """The one on a host, as seen from this machine: the end of the line to it."""

    def __init__(self, host: str, lab_id: str):
        self.host = host
        self._line = subprocess.Popen(
            [*ssh.ssh(host), ssh.python("-m", "labkit.launch.hosts.watchdog", lab_id)],
            env={name: value for name, value in os.environ.items() if name != processes.MARK},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        for end in (self._line.stdin, self._line.stdout):
            os.set_blocking(end.fileno(), False)
        self._expected = time.monotonic() + ARRIVAL

    def is_heard(self) -> bool:
        """Give a sign of life; whether one has come from there of late."""
        self._send(_LIFE)
        if self._line.stdout.read(4096):
            self._expected = time.monotonic() + SILENCE
        return self._line.poll() is None and time.monotonic() < self._expected

    def end(self) -> None:
        """Tell the host to end the lab's processes; returns at once."""
        self._send(_END)

    def wait(self, seconds: float) -> None:
        """Until the host has done so, or for that long."""
        try:
            self._line.wait(seconds)
        except subprocess.TimeoutExpired:
            self._line.kill()

    def _send(self, sign: bytes) -> None:
        try:
            self._line.stdin.write(sign)
        except OSError:
            pass  # what it means is seen by what comes back


def main(lab_id: str) -> None:
    """On the host: wait for one of the three ends, then end the lab's processes here."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # sshd sends it when the line is cut
    begun = time.time()
    while _answer() and select.select([0], [], [], SILENCE)[0]:
        heard = os.read(0, 4096)
        if not heard or _END in heard:
            break
    processes.end_lab(lab_id)
    mpi_files.remove(mpi_files.orphans(begun))


def _answer() -> bool:
    try:
        return bool(os.write(1, _LIFE))
    except OSError:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
