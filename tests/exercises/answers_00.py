"""Right answers to the exercises of lesson 00 that are of another kind than the solutions."""

from labkit.exercises.describe import body

RIGHT = {
    "my_sum": (
        body("n = -(-len(numbers) // world_size)\nreturn sum(numbers[rank * n : (rank + 1) * n])"),
        body("return sum(n for i, n in enumerate(numbers) if i % dist.get_world_size() == dist.get_rank())"),
        body("return torch.tensor(numbers).tensor_split(world_size)[rank].sum()"),
        body("import numpy as np\nreturn np.array_split(np.array(numbers), world_size)[rank].sum()"),
    ),
    "estimate_pi": (
        body("""\
x, y = torch.rand(darts), torch.rand(darts)
return 4 * (x**2 + y**2 < 1).sum().item() / darts"""),
        body("""\
import numpy as np
p = np.random.default_rng().random((darts, 2))
return 4 * np.mean((p * p).sum(axis=1) < 1)"""),
        body("p = 2 * torch.rand(darts, 2) - 1\nreturn 4 * (p.norm(dim=1) < 1).float().mean()"),
        body("""\
generator = torch.Generator().manual_seed(1000 + rank)
x, y = torch.rand(2, darts, generator=generator)
return torch.hypot(x, y).lt(1).sum().mul(4).div(darts)"""),
    ),
}
