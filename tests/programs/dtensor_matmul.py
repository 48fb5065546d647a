import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def main():
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    a, b = torch.randn(8, 16), torch.randn(16, 12)
    da = distribute_tensor(a, mesh, [Shard(0)])
    db = distribute_tensor(b, mesh, [Replicate()])
    product = da @ db
    assert product.placements == (Shard(0),)
    assert torch.allclose(product.full_tensor(), a @ b, atol=1e-5)
    moved = product.redistribute(mesh, [Shard(1)])
    assert moved.to_local().shape == (8, 3)
    total = product.sum().full_tensor()
    assert torch.allclose(total, (a @ b).sum(), atol=1e-4)
    if mesh.get_rank() == 0:
        print(product.shape, product.placements)


if __name__ == "__main__":
    dist.init_process_group("mpi")
    main()
    dist.destroy_process_group()
