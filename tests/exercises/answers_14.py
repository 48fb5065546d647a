"""Right answers to the exercises of lesson 14 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_local_steps": (
        body("""\
from torch.nn.utils import parameters_to_vector, vector_to_parameters
for start in range(0, len(batches), N):
    for x, y in batches[start : start + N]:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
    weights = parameters_to_vector(model.parameters()).detach() / dist.get_world_size()
    dist.all_reduce(weights)
    vector_to_parameters(weights, model.parameters())"""),
        edit("all_reduce(weights)", "all_reduce(weights, dist.ReduceOp.AVG)",
             "            weights /= dist.get_world_size()\n", ""),
        edit("            dist.all_reduce(weights)\n            weights /= dist.get_world_size()\n",
             "            every = torch.empty(world_size, len(weights), dtype=weights.dtype)\n"
             "            dist.all_gather_into_tensor(every, weights)\n            weights = every.mean(0)\n"),
    ),
    "top_k_mean": (
        body("""\
both = gradient + residual
places = both.abs().argsort(descending=True)[:k]
pairs = torch.stack([places.to(both.dtype), both[places]])
residual.copy_(both)
residual[places] = 0
every = [torch.empty_like(pairs) for _ in range(world_size)]
dist.all_gather(every, pairs)
total = torch.zeros_like(gradient)
for places, values in every:
    total[places.long()] += values / world_size
return total"""),
        edit("topk(k).indices", "topk(k).indices.int()", "torch.cat(every_place)", "torch.cat(every_place).long()"),
        edit("    residual += gradient\n", "    residual.add_(gradient)\n", "residual.abs().topk(k)", "residual.square().topk(k)",
             "    residual[places] = 0\n", "    residual.index_fill_(0, places, 0)\n"),
    ),
}  # fmt: skip
