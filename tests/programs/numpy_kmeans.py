import numpy as np
import torch
import torch.distributed as dist

dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(rank)
centres = np.array([[0, 0], [5, 5], [0, 5]], dtype=float)
points = np.concatenate([c + 0.3 * rng.normal(size=(40, 2)) for c in centres])

guess = torch.tensor([[1.0, 1.0], [4.0, 4.0], [1.0, 4.0]], dtype=torch.float64)
dist.broadcast(guess, 0)
for _ in range(5):
    distance = np.linalg.norm(points[:, None] - guess.numpy()[None], axis=-1)
    label = distance.argmin(1)
    sums = torch.from_numpy(np.stack([points[label == k].sum(0) for k in range(3)]))
    counts = torch.from_numpy(np.bincount(label, minlength=3).astype(float))
    dist.all_reduce(sums)
    dist.all_reduce(counts)
    guess = sums / counts[:, None]
assert np.abs(guess.numpy() - centres).max() < 0.2
if rank == 0:
    print(np.round(guess.numpy()).astype(int).tolist())
