"""Several hosts in one Linux machine: each with its name, network, processes and sshd of its own.

A host is a process that is the first of its namespaces (UTS, network, IPC, pid, mount). What runs on the
host ends with that process, and the kernel then removes its network. A bridge joins the hosts; its
own address is this machine's, so that a notebook here reaches them. Files are shared: it is one machine.
Needs Linux, root, iproute2 and openssh-server, and Python's standard library alone.
"""

import argparse
import ctypes
import ipaddress
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

BRIDGE = "labkitbox"
MARK = "LABKIT_BOX_HOST"
"""In the environment of each host's first process: the host's name. There is one box in a machine."""
STATE = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "labkit-box")
UP_DEADLINE = 10.0
"""Seconds within which each host's sshd must listen."""
BUCKET = 1.3e-3
"""Seconds of a limited link's bandwidth that may pass at once."""

SSHD_CONFIG = """\
ListenAddress {address}:22
HostKey {state}/host_key
PidFile none
AuthorizedKeysFile {state}/user_key.pub
AllowUsers {user}
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 100
"""  # StrictModes would look at the folders above; the state folder itself is for its owner alone

SSH_CONFIG = """\
Host {name}
    HostName {address}
    User {user}
    IdentityFile {state}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {state}/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="box", description="Several hosts in one Linux machine.")
    parser.add_argument("--state", type=Path, default=STATE, help="folder for keys and configuration")
    commands = parser.add_subparsers(dest="command", required=True)
    up_options = argparse.ArgumentParser(add_help=False)
    up_options.add_argument("names", nargs="+", metavar="NAME")
    up_options.add_argument("--bandwidth", type=written, default="none", help="of each link: 100mbit")
    up_options.add_argument("--slots", type=int, default=2, help="ranks for each host in LABKIT_HOSTS")
    up_options.add_argument("--subnet", type=ipaddress.ip_network, default="10.213.77.0/24")
    commands.add_parser("up", parents=[up_options], help="make hosts")
    commands.add_parser("inside", parents=[up_options], help="make hosts, run the command after --, end them")
    limit_options = commands.add_parser("limit", help="change the links of the hosts that are up")
    limit_options.add_argument("bandwidth", type=written, help='of each link: 100mbit, or "none"')
    commands.add_parser("down", help="take all hosts down")
    host_options = commands.add_parser("host")  # for `up`: runs inside of the new namespaces
    host_options.add_argument("name")
    host_options.add_argument("address", type=ipaddress.ip_interface)
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, command = sys.argv[1:cut], sys.argv[cut + 1 :]
    options = parser.parse_args(arguments)
    if options.command == "host":
        run_host(options.state, options.name, options.address)
    require(options.command)
    if options.command == "down":
        down(options.state)
        return
    if options.command == "limit":
        limit(options.state, options.bandwidth)
        return
    if options.command == "inside":
        ip("link", "set", "lo", "up")
    variables = up(options.state, options.names, options.subnet, options.bandwidth, options.slots)
    if options.command == "up":
        print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()))
        return
    try:
        sys.exit(subprocess.run(command, env=os.environ | variables).returncode)
    finally:
        down(options.state)


def require(command: str) -> None:
    """End with a sentence if this machine cannot hold the box."""
    if sys.platform != "linux":
        sys.exit("a box needs the namespaces of Linux: take real hosts, or a virtual machine with Linux")
    if os.geteuid() != 0 and command != "inside":
        sys.exit(f"a box needs root: sudo cluster/box/{command}; without root: see cluster/box/README.md")
    needed = {"ip": "iproute2", "tc": "iproute2", "sshd": "openssh-server", "ssh-keygen": "openssh-client"}
    path = os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({package for program, package in needed.items() if not shutil.which(program, path=path)})
    if missing:
        sys.exit(f"a box needs {', '.join(missing)}: apt-get install {' '.join(missing)}")


def up(state: Path, names: list[str], subnet, bandwidth: str, slots: int) -> dict:
    """Make the hosts; returns the variables that a notebook needs to use them."""
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,14}", name) or names.count(name) > 1:
            sys.exit(f"{name!r} is no name for a host here: up to 15 letters, digits and -, each name once")
    down(state)
    state.mkdir(mode=0o700, parents=True)
    ours, *addresses = list(subnet.hosts())[: len(names) + 1]
    make_files(state, dict(zip(names, map(str, addresses), strict=True)), str(ours))
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", f"{ours}/{subnet.prefixlen}", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for number, (name, address) in enumerate(zip(names, addresses, strict=True)):
            pid = start_host(state, name, f"{address}/{subnet.prefixlen}")
            connect(pid, f"{BRIDGE}{number}")
            (state / f"{name}.json").write_text(json.dumps({"pid": pid, "link": f"{BRIDGE}{number}"}))
        limit(state, bandwidth)
        for name in names:
            wait_until_up(state, name)
    except (subprocess.CalledProcessError, TimeoutError) as error:
        down(state)
        sys.exit(f"the box did not come up: {error}")
    hosts = ",".join(f"{name}:{slots}" for name in names)
    return {"LABKIT_SSH_CONFIG": str(state / "ssh_config"), "LABKIT_HOSTS": hosts}


def make_files(state: Path, addresses: dict[str, str], ours: str) -> None:
    """Keys, sshd's and ssh's configuration, and the names for every host's /etc/hosts."""
    user = subprocess.check_output(["id", "-un"], text=True).strip()
    for key in ("host_key", "user_key"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "labkit box", "-f", state / key]
        subprocess.run(keygen, check=True)
    key = (state / "host_key.pub").read_text()
    facts = {name: {"name": name, "address": address, "state": state, "user": user}
             for name, address in addresses.items()}  # fmt: skip
    (state / "known_hosts").write_text("".join(f"{address} {key}" for address in addresses.values()))
    (state / "ssh_config").write_text("\n".join(SSH_CONFIG.format(**f) for f in facts.values()))
    lines = ["127.0.0.1 localhost", f"{ours} {os.uname().nodename}"]
    lines += [f"{address} {name}" for name, address in addresses.items()]
    (state / "hosts").write_text("\n".join(lines) + "\n")
    for name, f in facts.items():
        (state / f"{name}.sshd_config").write_text(SSHD_CONFIG.format(**f))
        (state / f"{name}.boot_id").write_text(f"{uuid.uuid4()}\n")
    for file in state.iterdir():
        file.chmod(0o600)


def start_host(state: Path, name: str, address: str) -> int:
    """Start the host's first process in namespaces of its own; returns its pid here."""
    me = [sys.executable, __file__, "--state", state, "host", name, address]
    namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc"]
    outer = subprocess.Popen(
        ["unshare", *namespaces, "--kill-child", *me],
        env={MARK: name, "PATH": os.environ["PATH"], "HOME": str(Path.home())},
        stdin=subprocess.DEVNULL,
        stdout=(state / f"{name}.log").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + UP_DEADLINE
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    while outer.poll() is None and time.monotonic() < deadline:
        if found := children.read_text().split():
            return int(found[0])
        time.sleep(0.01)
    raise TimeoutError(f"{name}: {(state / f'{name}.log').read_text()}")


def connect(pid: int, link: str) -> None:
    """Plug a cable between the bridge and the host's eth0."""
    ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", link, "master", BRIDGE, "up")


def limit(state: Path, bandwidth: str) -> None:
    """Limit both ends of every host's cable, also while ranks run; "none" takes the limit off."""
    files = sorted(state.glob("*.json"))
    if not files:
        sys.exit("there is no box to limit: cluster/box/up makes one")
    for file in files:
        host = json.loads(file.read_text())
        shape(host["link"], bandwidth)
        shape("eth0", bandwidth, "nsenter", "--net", "--target", str(host["pid"]))


def shape(link: str, bandwidth: str, *inside: str) -> None:
    tc = [*inside, "tc", "qdisc"]
    if bandwidth == "none":
        subprocess.run([*tc, "del", "dev", link, "root"], capture_output=True)  # there may be none
        return
    # What a full bucket holds passes at once, which no wire does: no more of it than late timers need.
    bucket = max(16_384, round(bits(bandwidth) / 8 * BUCKET))
    rate = ["rate", bandwidth, "burst", str(bucket), "latency", "50ms"]
    subprocess.run([*tc, "replace", "dev", link, "root", "tbf", *rate], check=True)


def written(bandwidth: str) -> str:
    """The bandwidth as it was written, if it can be read."""
    if bandwidth != "none" and not bits(bandwidth):
        raise argparse.ArgumentTypeError(f"{bandwidth!r} is no bandwidth: write 100mbit, 2.5gbit or none")
    return bandwidth


def bits(bandwidth: str) -> float:
    """Bits per second; 0 for what cannot be read."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg])bit", bandwidth)
    return float(found[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[found[2]] if found else 0.0


def run_host(state: Path, name: str, address) -> None:
    """Be the first process of a host: set it up, start sshd, then bury the dead for ever."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sethostname(name.encode(), len(name)):
        raise OSError(ctypes.get_errno(), "sethostname")
    mount("--bind", state / "hosts", "/etc/hosts")
    mount("-t", "tmpfs", "tmpfs", "/dev/shm")  # two hosts share no memory
    mount("--bind", state / f"{name}.boot_id", "/proc/sys/kernel/random/boot_id")  # UCX knows hosts by it
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it, to separate its privileges
    choose_tcp()
    ip("link", "set", "lo", "up")
    deadline = time.monotonic() + UP_DEADLINE
    while not Path("/proc/self/net/dev").read_text().count("eth0") and time.monotonic() < deadline:
        time.sleep(0.01)
    ip("addr", "add", str(address), "dev", "eth0")
    ip("link", "set", "eth0", "up")
    subprocess.Popen([shutil.which("sshd"), "-D", "-e", "-f", state / f"{name}.sshd_config"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.5)


def choose_tcp() -> None:
    """TCP that fills a link until packets are lost, as on most hosts, whatever this machine prefers.

    Among those that do, Reno is in every kernel and in every namespace. BBR would take a link that is busy in
    both directions for a slower one.
    """
    try:
        Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
    except OSError:
        return  # without root it is not ours to choose


def wait_until_up(state: Path, name: str) -> None:
    """Until ssh brings us to the host."""
    deadline = time.monotonic() + UP_DEADLINE
    ssh = ["ssh", "-F", state / "ssh_config", "-o", "ConnectTimeout=2", name, "uname -n"]
    while True:
        done = subprocess.run(ssh, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.stdout.strip() == name:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name}: {done.stderr}{(state / f'{name}.log').read_text()}")
        time.sleep(0.1)


def down(state: Path) -> None:
    """End every host's first process, and with it all that runs there; remove bridge, keys, configuration."""
    for pid in first_processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it went with the one before
    deadline = time.monotonic() + UP_DEADLINE
    while first_processes() and time.monotonic() < deadline:
        time.sleep(0.01)
    links = json.loads(subprocess.check_output(["ip", "-json", "link", "show"]))
    for link in links:
        if re.fullmatch(rf"{BRIDGE}\d*", link["ifname"]):
            subprocess.run(["ip", "link", "del", link["ifname"]], capture_output=True)
    shutil.rmtree(state, ignore_errors=True)


def first_processes() -> list[int]:
    """The hosts' first processes and those that made them: known by the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        is_marked = any(line.startswith(f"{MARK}=".encode()) for line in environment)
        if is_marked and Path(__file__).name.encode() in command:
            found.append(int(folder.name))
    return found


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def mount(*arguments) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
