import warnings

import torch
import torch.distributed as dist


def old_mean(x):
    warnings.warn("old_mean is deprecated, use mean_all", DeprecationWarning, stacklevel=2)
    return mean_all(x)


def mean_all(x):
    dist.all_reduce(x)
    return x / dist.get_world_size()


dist.init_process_group("mpi")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    value = old_mean(torch.tensor(2.0))
assert value == 2 and [w.category for w in caught] == [DeprecationWarning]
with warnings.catch_warnings():
    warnings.simplefilter("error")
    assert mean_all(torch.tensor(3.0)) == 3
warnings.filterwarnings("ignore", category=DeprecationWarning)
assert old_mean(torch.tensor(4.0)) == 4
print("warned", len(caught), "time")
