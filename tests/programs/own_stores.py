import tempfile
import threading
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()

port = [None]
if rank == 0:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = [server.port]
dist.broadcast_object_list(port)
store = server if rank == 0 else dist.TCPStore("127.0.0.1", port[0], is_master=False)
store.set(f"name/{rank}", f"worker-{rank}")
store.wait([f"name/{r}" for r in range(size)], timedelta(seconds=20))
assert store.get(f"name/{(rank + 1) % size}").decode() == f"worker-{(rank + 1) % size}"
arrived = store.add("arrived", 1)
assert 1 <= arrived <= size

path = [tempfile.mkstemp()[1] if rank == 0 else None]
dist.broadcast_object_list(path)
prefix = dist.PrefixStore("lab", dist.FileStore(path[0], size))
setter = threading.Timer(0.2, prefix.set, args=(f"late{rank}", "yes"))
setter.start()
assert prefix.get(f"late{(rank + 1) % size}") == b"yes"
setter.join()
dist.barrier()
print("both stores agree")
