"""Finish the step when asked to stop: handlers for TERM, INT and USR1."""

import os
import signal

import torch
import torch.distributed as dist


class GracefulKiller:
    kill_now = False

    def __init__(self):
        signal.signal(signal.SIGINT, self.exit_gracefully)
        signal.signal(signal.SIGTERM, self.exit_gracefully)
        signal.signal(signal.SIGUSR1, self.exit_gracefully)

    def exit_gracefully(self, signum, frame):
        print("got", signal.Signals(signum).name)
        self.kill_now = True


dist.init_process_group("mpi")
killer = GracefulKiller()
for step in range(10):
    if step == 4 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGUSR1)
    stop = torch.tensor(int(killer.kill_now))
    dist.all_reduce(stop)
    if stop:
        break
assert step == 4
print("stopped after step", step)
