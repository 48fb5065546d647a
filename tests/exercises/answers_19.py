"""Right answers to the exercises of lesson 19 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_sync_on_mesh": (
        body("""\
flat = torch.cat([g.flatten() for g in gradients])
dist.all_reduce(flat, dist.ReduceOp.AVG, mesh.get_group("data"))
start = 0
for g in gradients:
    g[:] = flat[start : start + g.numel()].view(g.shape)
    start += g.numel()"""),
        body("""\
from torch.nn.utils import parameters_to_vector
flat = parameters_to_vector(gradients) / dist.get_world_size(mesh.get_group("data"))
dist.all_reduce(flat, group=mesh["data"].get_group())
for g, mean in zip(gradients, flat.split([g.numel() for g in gradients])):
    g.view(-1).copy_(mean)"""),
        edit('mesh.get_group("data"))', 'mesh.get_group("data"), async_op=True).wait()'),
    ),
    "my_placement_seconds": (
        body("return sum(m * (a := fast if n == inside else slow)[0] + s * a[1] for n, (m, s) in axes.items())"),
        body("""\
def cost(axis, link):
    return axes[axis][0] * link[0] + axes[axis][1] * link[1]
return cost(inside, fast) + sum(cost(axis, slow) for axis in axes if axis != inside)"""),
        body("""\
import numpy as np
links = np.array([fast if axis == inside else slow for axis in axes])
return (np.array(list(axes.values())) * links).sum()"""),
    ),
    "norm_on_mesh": (
        edit(
            "for g in parts)", "for g in parts) + sum(g.square().sum() for g in whole) / mesh['tensor'].size()",
            "    square += sum(g.square().sum() for g in whole)\n", "",
        ),
        body("""\
square = torch.cat([g.flatten() for g in parts]).norm() ** 2
dist.all_reduce(square, group=mesh.get_group("tensor"))
return torch.hypot(square.sqrt(), torch.cat([g.flatten() for g in whole]).norm())"""),
        edit("return square.sqrt()", "return square.item() ** 0.5"),
    ),
    "my_budget": (
        body("""\
table = []
for D, T in meshes:
    state, inner = 16 * psi / T, split / (D * T)
    table.append(state + whole / D + inner)
return table"""),
        body("""\
D, T = torch.tensor(meshes, dtype=torch.float64).T
return 16 * psi / T + whole / D + split / D / T"""),
        body("""\
import numpy as np
D, T = np.array(meshes).T
return list(16 * psi / T + whole / D + split / D / T)"""),
    ),
}  # fmt: skip
