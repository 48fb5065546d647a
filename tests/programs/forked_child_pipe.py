import os
import struct
import time

import torch
import torch.distributed as dist

dist.init_process_group("mpi")
rank = dist.get_rank()
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    status = 1
    try:
        os.close(r)
        time.sleep(0.1)
        os.write(w, struct.pack("d", rank / 2))
        status = 0
    finally:
        os._exit(status)
os.close(w)
with os.fdopen(r, "rb") as pipe:
    (half,) = struct.unpack("d", pipe.read())
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0
t = torch.tensor(half)
dist.all_reduce(t)
print("halves:", t.item())
assert t.item() == sum(range(dist.get_world_size())) / 2
