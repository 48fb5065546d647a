"""Programs that wait below all that labkit watches: some for ever, with what must be told, and some not.

All begin with START, line 1, and run on two ranks. `folder` is an empty one, `quiet` how many seconds a right
program does nothing that can be seen.
"""

START = (
    "from mpi4py import MPI; import numpy as np; import fcntl, os, socket, subprocess, sys, threading, time; "
    "comm = MPI.COMM_WORLD; me = comm.rank; x = np.zeros(4); folder, quiet = {folder!r}, {quiet!r}\n"
)

_WINDOW = "w = MPI.Win.Create(x, comm=comm)\n"
_FILE = "f = MPI.File.Open(comm, folder + '/f', MPI.MODE_CREATE | MPI.MODE_RDWR)\n"
_BETWEEN = "mine = comm.Split(me)\ninter = mine.Create_intercomm(0, comm, 1 - me)\n"
_SOCKET = (
    "if me == 0:\n    s = socket.create_server(('127.0.0.1', 0))\n    comm.bcast(s.getsockname())\n"
    "    c, _ = s.accept()\nelse:\n    c = socket.create_connection(comm.bcast(None))\n"
)
_LOCKED = "f = open(folder + '/lock', 'w')\nif me == 0:\n    {lock}\ncomm.Barrier()\nif me == 1:\n    {lock}"
_DEADLOCK = "^deadlock: nobody can end it: rank 1 finished the cell\n"
_NOT_SEEN = "waits below what labkit sees, and nothing moves"

DEAF = {
    "Win.Fence on one rank": (
        _WINDOW + "if me == 0:\n    w.Fence()",
        _DEADLOCK + r"rank 0 in Win.Fence for \d+ s, line 4: w.Fence",
    ),
    "Win.Lock of a window that a rank in a barrier keeps locked": (
        "w = MPI.Win.Allocate(32, comm=comm)\nw.Lock(me)\nw.Put(x, me)\nw.Flush(me)\ncomm.Barrier()\n"
        "if me == 0:\n    w.Lock(1)\n    w.Put(x, 1)\n    w.Unlock(1)\nelse:\n    comm.Barrier()",
        r"^deadlock: nobody can end it\nrank 0 in Win.(Lock|Put|Unlock) for \d+.*rank 1 in Barrier.*line 12",
    ),
    "Win.Wait for a rank that never starts": (
        _WINDOW + "if me == 0:\n    w.Post(comm.Get_group().Incl([1]))\n    w.Wait()",
        _DEADLOCK + r"rank 0 in Win.Wait for \d+ s, line 5",
    ),
    "Win.Fence of one of several windows": (
        _WINDOW + "windows = {'a': [w]}\nif me == 0:\n    windows['a'][0].Fence(\n        0\n    )",
        _DEADLOCK + r"rank 0 in Win.Fence for \d+ s, line 5",
    ),
    "File.Open on one rank": (
        "if me == 0:\n    " + _FILE,
        _DEADLOCK + r"rank 0 in File.Open for \d+ s, line 3",
    ),
    "File.Write_all against torch's barrier": (
        "import torch.distributed as dist\n"
        + _FILE
        + "f.Set_view(me * 32)\nif me == 0:\n    f.Write_all(x)\n"
        "dist.barrier()",
        r"^deadlock: nobody can end it\nrank 0 in File.Write_all.*line 6.*rank 1 in barrier.*line 7",
    ),
    "Spawn on one rank": (
        "if me == 0:\n    comm.Spawn(sys.executable, ['-c', 'pass'], maxprocs=1)",
        _DEADLOCK + r"rank 0 in Comm.Spawn for \d+ s, line 3",
    ),
    "Accept that nobody connects to": (
        "if me == 0:\n    MPI.COMM_SELF.Accept(MPI.Open_port())",
        f"^rank 0 {_NOT_SEEN}: rank 1 finished the cell\n" + r"rank 0 in Comm.Accept for \d+ s, line 3",
    ),
    "a barrier of an intercommunicator on one side": (
        _BETWEEN + "if me == 0:\n    inter.Barrier()",
        _DEADLOCK + r"rank 0 in Intercomm.Barrier for \d+ s, line 5",
    ),
    "both sides of an intercommunicator receive": (
        _BETWEEN + "inter.recv(source=0)",
        r"^deadlock: nobody can end it\nranks 0-1 in Intercomm.recv for \d+ s, line 4",
    ),
    "a persistent barrier on one rank": (
        "r = comm.Barrier_init()\nif me == 0:\n    r.Start()\n    r.Wait()",
        _DEADLOCK + r"rank 0 in Prequest.Wait for \d+ s, line 5",
    ),
    "MPI_Barrier of a library that ctypes loads": (
        "import ctypes\nmaps = open('/proc/self/maps').read().split()\n"
        "path = next(word for word in maps if 'libmpi' in word)\n"
        "lib = ctypes.CDLL(path)\nif me == 0:\n    lib.MPI_Barrier(ctypes.c_int(MPI._handleof(comm)))",
        _DEADLOCK + r"rank 0 in MPI_Barrier for \d+ s, line 7",
    ),
}
"""Name -> the program, and what the verdict must say. Of these ranks hear no interrupt: new ones come."""

HEARD = {
    "threading.Barrier across ranks": (
        "gate = threading.Barrier(2)\ngate.wait()",
        r"^ranks 0-1 wait below .*\nranks 0-1 in gate.wait for \d+ s, for a lock of its own, line 3",
    ),
    "multiprocessing.Barrier across ranks": (
        "import multiprocessing\ngate = multiprocessing.Barrier(2)\ngate.wait()",
        r"^ranks 0-1 wait below .*\nranks 0-1 in gate.wait for \d+ s, for a lock of its own, line 4",
    ),
    "a queue that another rank fills": (
        "import queue\nq = queue.Queue()\nq.put(1) if me else q.get()",
        f"^rank 0 {_NOT_SEEN}: rank 1 finished.*"
        + r"rank 0 in q.get for \d+ s, for a lock of its own, line 4",
    ),
    "multiprocessing's queue that another rank fills": (
        "import multiprocessing\nq = multiprocessing.Queue()\nq.put(1) if me else q.get()",
        f"^rank 0 {_NOT_SEEN}: rank 1 finished.*" + r"rank 0 in q.get for \d+ s, for data, line 4",
    ),
    "a lock that its own rank has": (
        "lock = threading.Lock()\nlock.acquire()\nif me == 1:\n    lock.acquire()\ncomm.Barrier()",
        f"^rank 1 {_NOT_SEEN}\n" + r"rank 0 in Barrier.*line 6.*rank 1 in lock.acquire for \d+ s.*line 5",
    ),
    "a socket that another rank never writes to": (
        _SOCKET + "    c.recv(1)",
        f"^rank 1 {_NOT_SEEN}: rank 0 finished.*" + r"rank 1 in c.recv for \d+ s, for data of rank 0, line 8",
    ),
    "flock on a file that another rank has locked": (
        _LOCKED.format(lock="fcntl.flock(f, fcntl.LOCK_EX)"),
        f"^rank 1 {_NOT_SEEN}: rank 0 .*" + r"in fcntl.flock for \d+ s, for a file lock of rank 0, line 7",
    ),
    "lockf on a file that another rank has locked": (
        _LOCKED.format(lock="fcntl.lockf(f, fcntl.LOCK_EX)"),
        f"^rank 1 {_NOT_SEEN}: rank 0 .*" + r"in fcntl.lockf for \d+ s, for a file lock of rank 0, line 7",
    ),
    "FileLock that another rank has": (
        "import filelock\nlock = filelock.FileLock(folder + '/lock')\nif me == 0:\n    lock.acquire()\n"
        "comm.Barrier()\nif me == 1:\n    lock.acquire()",
        f"^rank 1 {_NOT_SEEN}: rank 0 .*" + r"in lock.acquire for \d+ s, for a file lock of rank 0, line 8",
    ),
    "a pipe that is another one on each rank": (
        "r, w = os.pipe()\nif me == 0:\n    os.read(r, 1)\nelse:\n    os.write(w, b'1')",
        f"^rank 0 {_NOT_SEEN}: rank 1 finished.*" + r"rank 0 in os.read for \d+ s, for data, line 4",
    ),
}
"""The same where the interrupt is heard: the ranks and their variables stay."""

_SERVER = """
import http.server
class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(quiet)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *about):
        pass
"""

QUIET = {
    "asleep": "if me == 0:\n    time.sleep(quiet)",
    "asleep while another waits": "if me == 0:\n    time.sleep(quiet)\ncomm.Barrier()",
    "a queue that a thread fills": (
        "import queue\nq = queue.Queue()\nif me == 0:\n"
        "    threading.Thread(target=lambda: (time.sleep(quiet), q.put(1))).start()\n    q.get()"
    ),
    "an event that a timer sets": (
        "e = threading.Event()\nif me == 0:\n    threading.Timer(quiet, e.set).start()\n    e.wait()"
    ),
    "a result of a pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n"
        "    pool.submit(time.sleep, quiet * me).result()"
    ),
    "a coroutine that sleeps": (
        "import asyncio\nif me == 0:\n"
        "    t = threading.Thread(target=asyncio.run, args=(asyncio.sleep(quiet),))\n"
        "    t.start()\n    t.join()"
    ),
    "subprocess.run": "if me == 0:\n    subprocess.run(['sleep', str(quiet)], check=True)",
    "os.system": "if me == 0:\n    os.system(f'sleep {quiet}')",
    "a line of a child": (
        "if me == 0:\n    say = ['sh', '-c', f'sleep {quiet}; echo a']\n"
        "    with subprocess.Popen(say, stdout=-1) as child:\n"
        "        assert child.stdout.readline() == b'a\\n'"
    ),
    "a worker of a DataLoader": (
        "from torch.utils.data import DataLoader, Dataset\nclass Slow(Dataset):\n"
        "    def __len__(self):\n        return 1\n"
        "    def __getitem__(self, index):\n        time.sleep(quiet)\n        return index\n"
        "if me == 0:\n    assert len(list(DataLoader(Slow(), num_workers=1))) == 1"
    ),
    "a download from a thread of a rank that has finished": (
        _SERVER + "import urllib.request\nif me == 1:\n"
        "    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Slow)\n"
        "    threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "    comm.bcast(server.server_port, root=1)\nelse:\n    port = comm.bcast(None, root=1)\n"
        "    assert urllib.request.urlopen(f'http://127.0.0.1:{port}').read() == b'ok'"
    ),
    "a download from another process": (
        'code = f\'import socket, time; s = socket.create_server(("127.0.0.1", 0)); '
        'print(s.getsockname()[1], flush=True); c, _ = s.accept(); time.sleep({quiet}); c.send(b"1")\'\n'
        "if me == 0:\n    with subprocess.Popen([sys.executable, '-c', code], stdout=-1) as child:\n"
        "        s = socket.create_connection(('127.0.0.1', int(child.stdout.readline())))\n"
        "        assert s.recv(1) == b'1'"
    ),
    "a select with a thread that writes": (
        "import select\na, b = socket.socketpair()\nif me == 0:\n"
        "    threading.Timer(quiet, b.send, [b'x']).start()\n    select.select([a], [], [])"
    ),
    "a file lock of another process": (
        "path = folder + '/lock'\nif me == 0:\n"
        '    code = f\'import fcntl, time; f = open({path!r}, "w"); fcntl.flock(f, 2); print(flush=True); '
        "time.sleep({quiet})'\n    with subprocess.Popen([sys.executable, '-c', code], stdout=-1) as child:\n"
        "        child.stdout.readline()\n        fcntl.flock(open(path, 'w'), fcntl.LOCK_EX)"
    ),
    "a long computation in C": (
        "import torch\na, end = torch.rand(2000, 2000), time.monotonic() + quiet\nif me == 0:\n"
        "    while time.monotonic() < end:\n        torch.linalg.svd(a[:700])"
    ),
    "a fence for which another rank is late": (
        _WINDOW + "if me == 1:\n    time.sleep(quiet)\nw.Fence()\nw.Free()"
    ),
    "many short calls of a window": (
        _WINDOW + "end = time.monotonic() + quiet\nwhile me == 0 and time.monotonic() < end:\n"
        "    w.Lock(1)\n    w.Put(x, 1)\n    w.Flush(1)\n    w.Unlock(1)\nw.Free()"
    ),
    "a file that another rank writes later": (
        _FILE + "if me == 1:\n    time.sleep(quiet)\nf.Write_at_all(me * 32, x)\nf.Close()"
    ),
    "a spawned program that is slow to start and to answer": (
        "code = f'import time; time.sleep({quiet}); from mpi4py import MPI; up = MPI.Comm.Get_parent(); "
        "time.sleep({quiet}); up.send(1, 0); up.Disconnect()'\nif me == 0:\n"
        "    down = MPI.COMM_SELF.Spawn(sys.executable, ['-c', code], maxprocs=1)\n"
        "    assert down.recv() == 1\n    down.Disconnect()"
    ),
    "a remote call that takes long": (
        "import torch.distributed.rpc as rpc\nfrom socket import create_server\n"
        "port = comm.bcast(create_server(('127.0.0.1', 0)).getsockname()[1])\n"
        "options = rpc.TensorPipeRpcBackendOptions(init_method=f'tcp://127.0.0.1:{port}')\n"
        "rpc.init_rpc(f'worker{me}', rank=me, world_size=2, rpc_backend_options=options)\n"
        "if me == 0:\n    rpc.rpc_sync('worker1', time.sleep, args=(quiet,))\nrpc.shutdown()"
    ),
}
"""Name -> a right program that is quiet for long."""
