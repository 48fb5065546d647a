"""Right answers to the exercises of lesson 24 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_gpu": (
        body("n = 0\nfor r in range(rank):\n    n += hosts[r] == hosts[rank]\nreturn n % gpus"),
        body(
            "own = [r for r in range(world_size) if hosts[r] == hosts[rank]]\nreturn own.index(rank) % gpus"
        ),
        body("import numpy as np\nreturn (np.array(hosts[:rank]) == hosts[rank]).sum() % gpus"),
    ),
    "ring_order": (
        edit("hosts[r])", "hosts[r], reverse=True)"),
        body("return [r for h in dict.fromkeys(hosts) for r in range(world_size) if hosts[r] == h]"),
        body("return torch.tensor([hosts.index(host) for host in hosts]).argsort()"),
        body("return [r for _, r in sorted((host, r) for r, host in enumerate(hosts))]"),
    ),
}
