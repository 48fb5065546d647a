import sys

import torch
import torch.distributed as dist

COMMANDS = {}


def command(function):
    COMMANDS[function.__name__] = function
    return function


@command
def total(*numbers):
    t = torch.tensor([float(x) for x in numbers or (1, 2, 3)]).sum()
    dist.all_reduce(t)
    return t.item()


@command
def largest(*numbers):
    t = torch.tensor([float(x) for x in numbers]).max()
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


def cli(argv):
    name, *rest = argv or ["total"]
    if name not in COMMANDS:
        sys.exit(f"unknown command {name!r}; one of {', '.join(COMMANDS)}")
    return COMMANDS[name](*rest)


dist.init_process_group("mpi")
answer = cli(sys.argv[1:])
assert answer == 6 * dist.get_world_size(), answer
print("total:", answer)
