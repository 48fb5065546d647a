import cProfile
import io
import pstats
import timeit

import torch
import torch.distributed as dist

answers = []


def busy(n):
    return sum(i * i for i in range(n))


def main():
    t = torch.tensor(busy(2000))
    dist.all_reduce(t)
    answers.append(t.item())


if __name__ == "__main__":
    dist.init_process_group("mpi")
    profiler = cProfile.Profile()
    profiler.runcall(main)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats("busy")
    assert "(busy)" in text.getvalue(), text.getvalue()
    cProfile.run("main()", "/dev/null")
    assert timeit.timeit("busy(10)", globals=globals(), number=10) > 0
    assert timeit.timeit("main()", setup="from __main__ import main", number=1) > 0
    assert answers == [busy(2000) * dist.get_world_size()] * 3
    print("profiled", len(answers), "runs")
