import signal
import time

import torch
import torch.distributed as dist

dist.init_process_group("mpi")
stop = False


def on_alarm(signum, frame):
    global stop
    stop = True


previous = signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.3)
steps = 0
while True:
    time.sleep(0.02)
    steps += 1
    flag = torch.tensor(int(stop))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    if flag:
        break
signal.setitimer(signal.ITIMER_REAL, 0)  # which may not have come here yet
signal.signal(signal.SIGALRM, previous)
assert 1 < steps < 200
print("stopped by the alarm")
