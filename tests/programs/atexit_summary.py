import atexit
import time

import torch
import torch.distributed as dist

start = time.time()


@atexit.register
def summary():
    print(f"ran {time.time() - start:.1f} s")


def main():
    dist.init_process_group("mpi")
    t = torch.ones(1)
    dist.all_reduce(t)
    assert t.item() == dist.get_world_size()
    print("done")


if __name__ == "__main__":
    main()
    atexit.register(dist.destroy_process_group)
