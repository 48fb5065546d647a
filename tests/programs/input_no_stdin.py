import torch.distributed as dist

dist.init_process_group("mpi")


def ask(question, default):
    """Ask on a terminal; where there is none take the default."""
    try:
        return input(question) or default
    except EOFError:
        return default


answer = [None]
if dist.get_rank() == 0:
    answer = [ask("learning rate? ", "0.1")]
dist.broadcast_object_list(answer, src=0)
assert float(answer[0]) == 0.1
print("learning rate", answer[0])
