"""A bar such as tqdm draws: carriage returns on stderr, and a line now and then."""

import sys
import time

import torch
import torch.distributed as dist


class Bar:
    def __init__(self, items, width=20, out=sys.stderr):
        self.items, self.width, self.out = list(items), width, out

    def __iter__(self):
        start = time.perf_counter()
        for n, item in enumerate(self.items, 1):
            yield item
            full = self.width * n // len(self.items)
            seconds = time.perf_counter() - start
            self.out.write(f"\r{'#' * full:{self.width}} {n}/{len(self.items)} [{seconds:4.1f}s]")
            self.out.flush()
        self.out.write("\n")


dist.init_process_group("mpi")
acc = torch.zeros(())
for i in Bar(range(30)):
    acc += i
    time.sleep(0.005)
dist.all_reduce(acc)
assert acc.item() == 435 * dist.get_world_size()
print("sum", acc.item())
