import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

if not dist.is_initialized():
    dist.init_process_group("mpi")
mesh = init_device_mesh("cpu", mesh_shape=(2, 2), mesh_dim_names=("replicate", "shard"))
replicate, shard = mesh.get_group("replicate"), mesh.get_group("shard")

t = torch.tensor([float(dist.get_rank())])
dist.all_reduce(t, group=shard)
row = mesh.get_local_rank("replicate")
assert t.item() == [1.0, 5.0][row]

u = torch.tensor([float(dist.get_rank())])
dist.all_reduce(u, group=replicate)
column = mesh["shard"].get_local_rank()
assert u.item() == [2.0, 4.0][column]
print(f"global {dist.get_rank()} is row {row}, column {column}: {t.item():g} and {u.item():g}")
