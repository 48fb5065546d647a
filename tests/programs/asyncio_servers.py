import asyncio

import torch
import torch.distributed as dist


class Board:
    def __init__(self):
        self.notes, self.left, self.full = [], dist.get_world_size() - 1, asyncio.Event()

    async def serve(self, reader, writer):
        async for line in reader:
            self.notes.append(line.decode().strip())
            writer.write(b"ok\n")
            await writer.drain()
        writer.close()
        self.left -= 1
        if self.left == 0:
            self.full.set()


async def tell(port, text):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode() + b"\n")
    assert await reader.readline() == b"ok\n"
    writer.close()
    await writer.wait_closed()


async def main():
    rank, size = dist.get_rank(), dist.get_world_size()
    board = Board()
    server = await asyncio.start_server(board.serve, "127.0.0.1", 0)
    ports = torch.zeros(size, dtype=torch.int64)
    ports[rank] = server.sockets[0].getsockname()[1]
    dist.all_reduce(ports)
    others = [p for r, p in enumerate(ports.tolist()) if r != rank]
    await asyncio.gather(*(tell(p, f"hello from {rank}") for p in others))
    await asyncio.wait_for(board.full.wait(), 20)
    server.close()
    assert sorted(board.notes) == [f"hello from {r}" for r in range(size) if r != rank]
    return len(board.notes)


dist.init_process_group("mpi")
print(asyncio.run(main()), "notes each")
