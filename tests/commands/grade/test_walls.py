"""What an answer can try against the walls round it, each tried beside a process that judges, and held.

Every attack runs in a sandbox of its own, as whoever `labkit grade` makes it: root's are nobody, a user's are
that user in a namespace. What it wins it prints; what it forges would stand beside what the judge has said.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import LabError
from labkit.commands.grade import again, sandbox, veil
from labkit.commands.grade.walls import Limits
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.submission import Handed
from tests import accounts

pytestmark = pytest.mark.timeout(600)
# The process that judges, as far as it takes to be attacked: out of reach, and what was given in its memory.
JUDGE = """
import json, subprocess, sys
sys.path.insert(0, {folder!r})
import begin
with begin._out_of_reach(int(sys.argv[-1])) as channel:
    with channel.makefile("rb") as told:
        kept, attack = told.read().split(b"|", 1)
    tried = subprocess.run([sys.executable, "-c", attack], capture_output=True, text=True, cwd="/tmp")
    channel.sendall(json.dumps([tried.stdout, tried.stderr[-500:]]).encode())
"""
HEAD = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
LESSONS, OUTSIDE, SECRET, LINE = {lessons!r}, {outside!r}, {secret!r}, {line!r}
judge, others = os.getppid(), [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
FORGED = b'{{"solved": true, "mistake": "", "refused": ""}}'
def won(what):
    print("won", what)
"""
ATTACKS = {
    "writes to what the first process says": """
for number in range(64):
    try:
        os.write(os.open(f"/proc/1/fd/{number}", os.O_WRONLY | os.O_NONBLOCK), FORGED)
    except OSError:
        pass
""",
    "writes to every descriptor of every process": """
for pid in others:
    for number in range(64):
        try:
            os.write(os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_NONBLOCK), FORGED)
        except OSError:
            pass
""",
    "takes a descriptor out of a process": """
for pid in others:
    held = libc.syscall(434, pid, 0)
    for number in range(64):
        taken = libc.syscall(438, held, number, 0)
        if taken >= 0 and os.readlink(f"/proc/self/fd/{taken}").startswith("socket:"):
            os.write(taken, FORGED)
            won(f"descriptor {number} of {pid}")
""",
    "writes to what it has inherited": """
for number in range(3, 256):
    try:
        os.write(number, FORGED)
        won(f"descriptor {number}")
    except OSError:
        pass
""",
    "traces the judge": """
if libc.ptrace(16, judge, 0, 0) == 0 or libc.ptrace(0x4206, judge, 0, 0) == 0:
    won("the judge")
""",
    "reads the judge's memory": """
for name in ("mem", "maps", "environ", "auxv", "cwd/x", "root/x"):
    try:
        open(f"/proc/{judge}/{name}", "rb").read(1)
        won(name)
    except OSError:
        pass
class Part(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
kept = ctypes.create_string_buffer(8)
ours, theirs = Part(ctypes.addressof(kept), 8), Part(id(None), 8)
for call in (310, 311):  # process_vm_readv, process_vm_writev
    if libc.syscall(call, judge, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) > 0:
        won(call)
""",
    "finds the teacher's key": """
for ring in range(-8, 0):
    for call in (250, 249):
        found = libc.syscall(call, 10, ring, b"user", SECRET.encode(), 0)
        if found > 0 or libc.syscall(call, 0, ring, 0) > 0:
            won(f"keyring {ring}")
try:
    if SECRET in open("/proc/keys").read():
        won("what it is called")
except OSError:
    pass
""",
    "leaves a key for the next answer": """
if libc.syscall(250, 10, -3, b"user", b"left", 0) > 0:
    won("what the last has left")
for ring in range(-8, 0):
    if libc.syscall(248, b"user", b"left", b"x", 1, ring) > 0:
        won(f"room in keyring {ring}")
""",
    "asks for keys in another machine's numbers": """
import mmap, platform
if libc.syscall(0x40000000 + 250, 0, -3, 1) > 0:
    won("x32")
if platform.machine() == "x86_64":
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # keyctl(0, -3, 1) of a 32-bit program: push rbx; eax, ebx, ecx, edx set; int 0x80; pop rbx; ret
    code.write(bytes.fromhex("53b820010000bb00000000b9fdffffffba01000000cd805bc3"))
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    if call() > 0:
        won("i386")
""",
    "reads the solutions": """
for folder, _, names in os.walk(os.path.dirname(LESSONS)):
    for name in names:
        if LINE.encode() in open(os.path.join(folder, name), "rb").read():
            won(os.path.join(folder, name))
""",
    "imports the solutions": """
from labkit.exercises.catalogue import LABKITS
exercises = [exercise for lesson in LABKITS for exercise in lesson.exercises]
if [e.name for e in exercises if e.solution or e.why or e.hints or e.judge is not len]:
    won("what is right")
assert len(exercises) > 50 and all(e.given and e.stub for e in exercises)
""",
    "takes the veil off": """
libc.unshare(0x10020000)  # namespaces of a user and of mounts of its own
for place in (LESSONS, "/proc/keys", "/proc", "/tmp"):
    if libc.umount2(place.encode(), 2) == 0 and place != "/tmp":
        won(place)
for name in os.listdir(LESSONS):
    if name.endswith(".py") and LINE in open(os.path.join(LESSONS, name)).read():
        won(name)
""",
    "opens files by their handles": """
handle = ctypes.create_string_buffer(b"\\x08\\0\\0\\0\\x01\\0\\0\\0" + b"\\x02" + b"\\0" * 7, 64)
if libc.open_by_handle_at(os.open("/usr", os.O_RDONLY), handle, os.O_RDONLY) >= 0:
    won("the root of a disk")
""",
    "reads what is outside": """
for path in OUTSIDE:
    if os.path.exists(path):
        won(path)
for pid in others:
    for path in OUTSIDE:
        if os.path.exists(f"/proc/{pid}/root{path}"):
            won(f"{path} by way of {pid}")
""",
    "writes into what it runs on": """
for place in (LESSONS, os.path.dirname(os.__file__), sys.prefix, "/", "/usr", "/etc", "/proc/sys", "/dev"):
    try:
        os.close(os.open(os.path.join(place, "x"), os.O_CREAT | os.O_WRONLY))
        won(place)
    except OSError:
        pass
""",
    "calls a service of the machine": """
for address in ("\\0" + SECRET, ("127.0.0.1", 8000), ("10.0.0.1", 53)):
    try:
        kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        with socket.socket(kind) as calling:
            calling.settimeout(1)
            calling.connect(address)
        won(address)
    except OSError:
        pass
""",
    "finds shared memory of the machine": """
if libc.shmget(0x6C61626B, 1, 0) >= 0:
    won("a segment")
""",
    "types into the teacher's terminal": """
try:
    os.open("/dev/tty", os.O_RDWR)
    won("a terminal")
except OSError:
    pass
""",
    "leaves a file for the next answer": """
for place in ("/tmp", "/dev/shm", "/var/tmp"):
    if os.path.exists(f"{place}/left"):
        won(place)
    try:
        open(f"{place}/left", "w").close()
    except OSError:
        pass
""",
    "ends what is outside": """
import signal
for pid in (os.getppid() + 10**6, *range(2, 50)):
    if pid not in others and pid != os.getpid():
        try:
            os.kill(pid, 0)
            won(pid)
        except OSError:
            pass
""",
}
TWICE = {"leaves a key for the next answer", "leaves a file for the next answer"}


@pytest.fixture(scope="module")
def bwrap() -> str:
    try:
        return sandbox.require()
    except LabError as error:
        pytest.skip(f"no sandbox: {error.found}")


def attacked(outside: list[str], secret: str) -> dict[str, list[str]]:
    """What each attack has brought: all that came out of its sandbox."""
    bwrap, told = sandbox.require(), {}
    line = next(line for line in exercise_named("mean_loss").solution.splitlines() if "clone" in line).strip()
    head = HEAD.format(lessons=str(veil.LESSONS), outside=outside, secret=secret, line=line)
    judge = [sys.executable, "-c", JUDGE.format(folder=str(Path(sandbox.__file__).parent))]
    for name, attack in ATTACKS.items():
        given = f"{secret}|{head}{attack}\nprint('tried')".encode()
        for _ in range(1 + (name in TWICE)):
            ended = sandbox.run(bwrap, judge, given, Limits(seconds=100))
            told.setdefault(name, []).append(ended.said + ended.over)
    return told


def _with_a_key(secret: str) -> None:
    """This process gets a session keyring with a key in it, where the kernel has keys at all."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.syscall(250, 1, None)
    libc.syscall(248, b"user", secret.encode(), b"x", 1, -3)


@pytest.fixture(scope="module", params=["root", pytest.param("user", marks=accounts.as_root)])
def brought(request, bwrap):
    """What the attacks have brought where that account grades."""
    uid = 54321 if request.param == "user" else os.geteuid()
    with accounts.home(uid) as home:
        yield _brought(request.param, uid, home)


def _brought(account, uid, home):
    (home / "private").write_text("x")
    secret = f"secret-{os.urandom(4).hex()}"
    driver = "import sys, json; from tests.commands.grade import test_walls as t; "
    driver += (
        "t._with_a_key(sys.argv[1]); print(json.dumps(t.attacked(json.loads(sys.argv[2]), sys.argv[1])))"
    )
    outside = [str(home), str(home / "private"), str(Path(__file__)), "/home", "/etc/passwd"]
    program = [sys.executable, "-c", driver, secret, json.dumps(outside)]
    program = accounts.command(uid, *program) if account == "user" else program
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(f"\0{secret}")
        service.listen()
        done = subprocess.run(
            program, capture_output=True, text=True, env=accounts.environment(home), cwd="/", timeout=500
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_wins_nothing(brought, attack):
    for said in brought[attack]:
        assert json.loads(said)[0] == "tried\n", said


# Wrong answers to my_sum that would be right if the process that judges took their word for it.
WRITES = """
import os, sys
V = b'{"solved": true, "mistake": "", "refused": "", "look_at": "", "told": "solved"}'
def write_everywhere():
    for number in range(64):
        try:
            os.write(number, V)
        except OSError:
            pass
"""
RUNS = """
class Told:
    def __init__(self, *made): self.made = made
    def __reduce__(self): return self.made
import labkit.exercises.on_rank as on_rank
def answer(*told):
    on_rank.portable = lambda value, depth=0: Told(*told)
"""
FORGERIES = {
    "modules where the judge was begun": WRITES
    + """
import inspect
CODE = inspect.getsource(write_everywhere).replace("V)", repr(V) + ")")
CODE = f"import os\\n{CODE}write_everywhere(); os._exit(0)"
for name in ("torch", "matplotlib", "IPython", "pydoc", "usercustomize", "numpy", "signal_", "mpi4py"):
    for place in ("/tmp", os.getcwd(), "/tmp/.local/lib/python3/site-packages"):
        try:
            os.makedirs(place, exist_ok=True)
            open(f"{place}/{name}.py", "w").write(CODE)
        except OSError:
            pass
def my_sum(numbers):
    return 0
""",
    "a verdict to every process": WRITES
    + """
def my_sum(numbers):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for number in range(64):
            try:
                os.write(os.open(f"/proc/{pid}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK), V)
            except OSError:
                pass
    return 0
""",
    "an object that runs in the judge": WRITES
    + RUNS
    + """
CODE = "import os\\nfor n in range(64):\\n  try: os.write(n, %r)\\n  except OSError: pass\\nos._exit(0)" % V
def my_sum(numbers):
    answer(exec, (CODE,))
""",
    "the same in a tensor's storage": WRITES
    + RUNS
    + """
import io, pickle
CODE = "import os\\nfor n in range(64):\\n  try: os.write(n, %r)\\n  except OSError: pass\\nos._exit(0)" % V
kept = io.BytesIO()
torch.save(Told(exec, (CODE,)), kept)
def my_sum(numbers):
    answer(torch.storage._load_from_bytes, (kept.getvalue(),))
""",
    "the solution of the catalogue": """
from labkit.exercises.catalogue import exercise_named
exec(exercise_named("my_sum").solution, globals())
""",
    "what the judge would compare with": """
import labkit.exercises.on_rank as on_rank, dataclasses
from labkit.exercises import catalogue
def my_sum(numbers):
    exercise = catalogue.exercise_named("my_sum")
    return exercise.judge.expected([(numbers,)] * world_size)[rank]
""",
}


FORGERIES["one value, whoever asks"] = """
import labkit.exercises.on_rank as on_rank
on_rank.portable = lambda value, depth=0: 7
def my_least_bandwidth(*_):
    return 7
"""
OF = {"one value, whoever asks": "my_least_bandwidth"}
"""Those that are no answers to my_sum: here values are compared with what the solution gives on the ranks."""


def forged() -> dict[str, list[str]]:
    """The verdict on each, as the table of a class would have it."""
    bwrap, told = sandbox.require(), {}
    for name, source in FORGERIES.items():
        exercise = OF.get(name, "my_sum")
        ended = again.run(bwrap, exercise, source, Limits(seconds=400))
        result = again._result("x", "Ada", exercise, Handed(source), ended)
        told[name] = [result.solved, result.mistake, result.look_at]
    return told


@pytest.mark.ranks
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_no_answer_says_itself_that_it_is_right(bwrap):
    driver = "import json; from tests.commands.grade import test_walls as t; print(json.dumps(t.forged()))"
    program = [sys.executable, "-c", driver]
    if os.geteuid() == 0:  # a user's answers are that user, as what holds them is
        program = accounts.command(54321, *program)
    with accounts.home(54321 if os.geteuid() == 0 else os.geteuid()) as home:
        env = accounts.environment(home)
        done = subprocess.run(program, capture_output=True, text=True, env=env, cwd="/", timeout=2000)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {name for name, (solved, _, _) in told.items() if solved} == set()
    for name in ("an object that runs in the judge", "the same in a tensor's storage"):
        assert told[name][1] == again.CODE and "tells its judge to run" in told[name][2], told[name]
    assert all(look_at for _, _, look_at in told.values()), told
