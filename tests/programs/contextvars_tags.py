import contextvars
from contextlib import contextmanager

import torch
import torch.distributed as dist

phase = contextvars.ContextVar("phase", default="setup")


@contextmanager
def in_phase(name):
    token = phase.set(name)
    try:
        yield
    finally:
        phase.reset(token)


def tagged_sum(x):
    dist.all_reduce(x)
    return phase.get(), x.item()


dist.init_process_group("mpi")
assert phase.get() == "setup"
with in_phase("train"):
    name, value = tagged_sum(torch.tensor(2.0))
    assert name == "train" and value == 2 * dist.get_world_size()
copied = contextvars.copy_context()
assert copied.run(tagged_sum, torch.tensor(1.0))[0] == "setup"
print("phases are right")
