"""Where an interrupt lands on a rank: in the cell, never between cells, never inside an optimiser step.

An interrupt in the middle of `optimizer.step()` would leave some parameters updated and others
not. It is held back until the step is over, which takes milliseconds.
"""

import os
import signal
import threading

from labkit.observe import in_cell, stack

RETRY = 0.001  # seconds until an interrupt that was held back is sent again


def install(kernel) -> None:
    """Use this handler while the kernel handles a request; an idle rank ignores interrupts."""
    kernel.pre_handler_hook = lambda: signal.signal(signal.SIGINT, _on_interrupt)
    kernel.post_handler_hook = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_interrupt(signum, frame) -> None:
    frames = stack(frame)
    if not any(map(in_cell, frames)):
        return
    if any(map(_is_optimizer_step, frames)):
        threading.Timer(RETRY, os.kill, (os.getpid(), signum)).start()
        return
    raise KeyboardInterrupt


def _is_optimizer_step(frame) -> bool:
    return frame.f_code.co_name == "step" and "torch/optim/" in frame.f_code.co_filename
