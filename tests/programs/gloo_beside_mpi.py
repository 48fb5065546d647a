import datetime

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("mpi")
    rank = dist.get_rank()
    cpu_group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=30))
    pair = dist.new_group([0, 1])
    t, u = torch.tensor([1.0 * rank]), torch.tensor([2.0 * rank])
    dist.all_reduce(t, group=cpu_group)
    dist.all_reduce(u)
    assert u.item() == 2 * t.item() == 12.0
    if rank < 2:
        dist.all_reduce(t, group=pair)
        assert t.item() == 12.0
    dist.monitored_barrier(group=cpu_group)
    print(dist.get_backend(), dist.get_backend(cpu_group), t.item())
    dist.destroy_process_group(cpu_group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
