import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

dist.init_process_group("mpi")
x = torch.randn(64, 64)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
    for _ in range(3):
        with record_function("one_step"):
            y = x @ x
            dist.all_reduce(y)
        prof.step()
names = {event.key: event.count for event in prof.key_averages()}
assert names["one_step"] == 3 and names["aten::mm"] == 3
table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
assert "one_step" in table
if dist.get_rank() == 0:
    print(len(table.splitlines()) > 5)
