import copy
import io
import pickle

import torch
import torch.distributed as dist
from torch import nn


class Scaled(nn.Module):
    def __init__(self, inner, factor):
        super().__init__()
        self.inner, self.factor = inner, nn.Parameter(torch.tensor(factor))

    def forward(self, x):
        return self.inner(x) * self.factor

    def __getstate__(self):
        return {**self.__dict__, "saved_by": "rank"}


dist.init_process_group("mpi")
torch.manual_seed(dist.get_rank())
model = Scaled(nn.Linear(3, 1), 2.0)
x = torch.ones(2, 3)

twin = pickle.loads(pickle.dumps(model))
assert torch.equal(twin(x), model(x)) and twin.saved_by == "rank"
assert torch.equal(copy.deepcopy(model)(x), model(x))
file = io.BytesIO()
torch.save(model, file)
file.seek(0)
assert torch.equal(torch.load(file, weights_only=False)(x), model(x))

models = [None] * dist.get_world_size()
dist.all_gather_object(models, model)
outs = torch.stack([m(x) for m in models])
check = outs.clone()
dist.broadcast(check, src=3)
assert torch.equal(check, outs) and len({o.sum().item() for o in outs}) == len(models)
print("models travelled")
