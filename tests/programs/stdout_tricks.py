import contextlib
import io
import os
import shutil
import sys

import torch
import torch.distributed as dist

dist.init_process_group("mpi")
rank = dist.get_rank()
if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(line_buffering=True)

captured = io.StringIO()
with contextlib.redirect_stdout(captured), contextlib.redirect_stderr(captured):
    print("hidden", rank)
    print("too", file=sys.stderr)
assert captured.getvalue() == f"hidden {rank}\ntoo\n"


class Tee:
    def __init__(self, *streams):
        self.streams = streams

    def write(self, text):
        for s in self.streams:
            s.write(text)
        return len(text)

    def flush(self):
        for s in self.streams:
            s.flush()


log, sys.stdout = io.StringIO(), Tee(sys.stdout, kept := io.StringIO())
print("teed", end="\n", flush=True)
sys.stdout = sys.stdout.streams[0]
assert kept.getvalue() == "teed\n"

columns = shutil.get_terminal_size().columns
colour = "\033[32m{}\033[0m" if sys.stdout.isatty() else "{}"
os.write(1, b"raw bytes\n")
sys.stdout.buffer.write("buffered bytes: ä\n".encode())
sys.stdout.flush()
t = torch.tensor(columns)
dist.all_reduce(t)
print(colour.format("-" * min(columns, 10)), t.item() > 0)
