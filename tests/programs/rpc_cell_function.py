"""Call a function of this very file on another worker."""

import os

import torch.distributed.rpc as rpc

counter = {"calls": 0}


def bump(by):
    counter["calls"] += by
    return counter["calls"]


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4)
    rpc.init_rpc(f"node{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 0:
        results = [rpc.rpc_sync(f"node{r}", bump, args=(r,)) for r in range(1, size)]
        assert results == list(range(1, size)), results
        print("bumped", results)
    rpc.shutdown()
    assert counter["calls"] == rank


if __name__ == "__main__":
    main()
