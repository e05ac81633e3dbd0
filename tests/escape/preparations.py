# SPDX-License-Identifier: MIT
"""What an attempt finds on the host: secrets, victims, services; each gone after the attempt."""
import contextlib
import dataclasses
import os
import pathlib
import pty
import shutil
import socket
import stat
import subprocess
import threading
import uuid

import harness
import pytest

SECRET = "secret of the host"
PYTHON = "/usr/bin/python3"


@dataclasses.dataclass
class Prepared:
    """What to start the attempt with."""

    args: dict = dataclasses.field(default_factory=dict)  # for the script
    env: dict = dataclasses.field(default_factory=dict)  # of the caller
    options: list = dataclasses.field(default_factory=list)  # of warder run
    kwargs: dict = dataclasses.field(default_factory=dict)  # of subprocess.run


@contextlib.contextmanager
def nothing(_place):
    yield Prepared()


# ---- secrets ----


@contextlib.contextmanager
def caller_secret(_place):
    marker = f"secret-{uuid.uuid4()}"
    yield Prepared({"marker": marker}, env={"API_KEY": marker})


@contextlib.contextmanager
def home_secret(place):
    path = place.write("home/.ssh/id_ed25519", SECRET, 0o600)
    yield Prepared({"path": str(path)})


@contextlib.contextmanager
def forged_run_id(_place):
    yield Prepared({"forged": "forged"}, env={"RUN_ID": "forged"})


@contextlib.contextmanager
def host_root(_place):
    device = os.stat("/").st_dev
    yield Prepared({"device": f"{os.major(device)}:{os.minor(device)}"})


# ---- processes ----

VICTIM = """
import ctypes, os, sys
PR_SET_PTRACER, ANY = 0x59616D61, -1
ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ANY), 0, 0, 0)
buffer = ctypes.create_string_buffer(sys.argv[1].encode())
print(os.getpid(), ctypes.addressof(buffer), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def victim(place):
    """A process of the same user that does not mind being traced, with a secret in its memory."""
    marker = f"secret-{uuid.uuid4()}"
    line = place.command([PYTHON, "-S", "-c", VICTIM, marker])
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        pid, address = map(int, it.stdout.readline().split())
        yield Prepared({"pid": pid, "address": address, "marker": marker})
        it.stdin.close()


@contextlib.contextmanager
def extra_groups(_place):
    if not harness.IS_ROOT:
        pytest.skip("only root can start a run with other groups")
    yield Prepared(kwargs={"extra_groups": [4, harness.USER_ID]})


# ---- files ----


@contextlib.contextmanager
def setid_check(place):
    """Nothing with the set-user-id or set-group-id bit may be left in the workspace."""
    yield Prepared()
    for path in place.workspace.rglob("*"):
        assert not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID), path


@contextlib.contextmanager
def setuid_program(place):
    """A copy of id(1) that tells with whose rights it runs."""
    if not harness.IS_ROOT:
        pytest.skip("only root can make a set-user-id program of root")
    path = place.top / "tools" / "id"
    path.parent.mkdir()
    shutil.copy("/usr/bin/id", path)
    path.chmod(0o4755)
    yield Prepared({"path": str(path)}, options=["--ro", str(path.parent)])
    shutil.rmtree(path.parent)


@contextlib.contextmanager
def shown_interpreter(place):
    """A program of the caller's own, shown read-only."""
    path = place.top / "tools" / "python3"
    path.parent.mkdir()
    shutil.copy(PYTHON, path)
    place.own(path)
    yield Prepared({"interpreter": str(path)}, options=["--ro", str(path.parent)])
    shutil.rmtree(path.parent)


@contextlib.contextmanager
def shown_file(place):
    path = place.write("shown/file", "shown, not given")
    place.own(path.parent)
    yield Prepared({"path": str(path)}, options=["--ro", str(path)])
    shutil.rmtree(path.parent)
    for name in ("second", "alias"):
        (place.workspace / name).unlink(missing_ok=True)


@contextlib.contextmanager
def links_out(place):
    """Links in the workspace that lead out of it."""
    secret = place.write("home/secret", SECRET, 0o600)
    place.write("workspace/own", "the agent's")
    outside = place.write("outside/file", "outside").parent
    place.own(outside)
    links = {"link-to-file": secret, "link-to-dir": outside}
    for name, target in links.items():
        (place.workspace / name).symlink_to(target)
    yield Prepared({"relative": "../home/secret", "absolute": str(secret)})
    for name in links:
        (place.workspace / name).unlink()
    shutil.rmtree(outside)


# ---- descriptors ----


@contextlib.contextmanager
def open_directory(place):
    place.write("home/secret", SECRET)
    fd = os.open(place.home, os.O_RDONLY)
    yield Prepared(kwargs={"pass_fds": [fd]})
    os.close(fd)


@contextlib.contextmanager
def output_file(place):
    """Standard output is a log with earlier lines in it."""
    path = place.write("log", SECRET + "\n")
    with open(path, "ab") as log:
        yield Prepared(kwargs={"stdout": log})


@contextlib.contextmanager
def input_file(place):
    path = place.write("input", "to be read only")
    with open(path, "rb") as file:
        yield Prepared(kwargs={"stdin": file})
    (place.workspace / "second").unlink(missing_ok=True)


@contextlib.contextmanager
def _pipe(place):
    """A pipe that the caller made, as its shell does between two commands."""
    read_fd, write_fd = os.pipe()
    place.own(read_fd)  # the inode, and so both ends
    yield read_fd, write_fd
    os.close(read_fd)
    os.close(write_fd)


@contextlib.contextmanager
def output_pipe(place):
    """Standard output is a pipe with another command's output still in it."""
    with _pipe(place) as (_, write_fd):
        os.write(write_fd, SECRET.encode())
        yield Prepared(kwargs={"stdout": write_fd})


@contextlib.contextmanager
def input_pipe(place):
    with _pipe(place) as (read_fd, _):
        yield Prepared({"inode": os.fstat(read_fd).st_ino}, kwargs={"stdin": read_fd})


@contextlib.contextmanager
def host_terminal(place):
    """A terminal of the host that belongs to the caller and is its standard input."""
    master_fd, slave_fd = pty.openpty()
    path, st = os.ttyname(slave_fd), os.fstat(slave_fd)
    place.own(path)
    yield Prepared({"path": path, "device": st.st_rdev, "filesystem": st.st_dev},
                   kwargs={"stdin": slave_fd, "start_new_session": True})
    os.close(master_fd)
    os.close(slave_fd)


# ---- services ----


def _answer(server):
    """Says the secret to whoever connects, until the socket is shut down."""
    while True:
        try:
            client, _ = server.accept()
            client.sendall(SECRET.encode())
        except OSError:
            return
        client.close()


def _answer_datagrams(server):
    while True:
        question, sender = server.recvfrom(100)
        if question == b"end":
            return
        server.sendto(SECRET.encode(), sender)


@contextlib.contextmanager
def _service(server, answer=_answer):
    thread = threading.Thread(target=answer, args=(server,))
    thread.start()
    try:
        yield server.getsockname()
    finally:
        if server.type == socket.SOCK_DGRAM:
            with socket.socket(server.family, server.type) as last:
                last.sendto(b"end", server.getsockname())
        else:
            server.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.close()


def _listener(family, address):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    return server


@contextlib.contextmanager
def loopback_services(_place):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    with contextlib.ExitStack() as stack:
        tcp4 = stack.enter_context(_service(_listener(socket.AF_INET, ("127.0.0.1", 0))))
        tcp6 = stack.enter_context(_service(_listener(socket.AF_INET6, ("::1", 0))))
        udp4 = stack.enter_context(_service(udp, _answer_datagrams))
        yield Prepared({"tcp4": tcp4[1], "tcp6": tcp6[1], "udp4": udp4[1]})


@contextlib.contextmanager
def unix_sockets(place):
    """An agent of the caller as ssh-agent is one, and a service without a path."""
    abstract = f"warder-{uuid.uuid4()}"
    path = place.home / "agent.sock"
    with _service(_listener(socket.AF_UNIX, "\0" + abstract)), \
            _service(_listener(socket.AF_UNIX, str(path))):
        place.own(path)
        yield Prepared({"abstract": abstract, "path": str(path)},
                       env={"SSH_AUTH_SOCK": str(path)})
    path.unlink()


def _as_caller(place, code):
    """Runs Python with the attempts' library outside the sandbox, as the caller; its output."""
    lib = pathlib.Path(__file__).parent / "attempts" / "lib" / "__init__.py"
    whole = lib.read_text() + "\nimport ctypes, os\n" + code
    done = place.host([PYTHON, "-S", "-c", whole])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextlib.contextmanager
def shared_memory(place):
    key = uuid.uuid4().int & 0x7FFFFFFF
    segment = _as_caller(place, f"""
segment = syscall("shmget", {key}, 4096, 0o1600)
libc.shmat.restype = ctypes.c_void_p
ctypes.memmove(libc.shmat(segment, None, 0), {SECRET.encode()!r}, {len(SECRET)})
print(segment)
""")
    yield Prepared({"key": key})
    _as_caller(place, f"libc.shmctl({segment}, 0, None)")


@contextlib.contextmanager
def message_queues(place):
    key, name = uuid.uuid4().int & 0x7FFFFFFF, f"warder-{uuid.uuid4()}"
    queue = _as_caller(place, f"""
syscall("mq_open", {name.encode()!r}, os.O_CREAT | os.O_RDWR, 0o600, 0)
print(syscall("msgget", {key}, 0o1600))
""")
    yield Prepared({"key": key, "name": name})
    _as_caller(place, f"libc.msgctl({queue}, 0, None); libc.mq_unlink(b'/{name}')")


@contextlib.contextmanager
def user_key(place):
    name = f"warder-{uuid.uuid4()}"
    text = SECRET.encode()
    key = _as_caller(place, f"""
print(syscall("add_key", b"user", {name.encode()!r}, {text!r}, {len(text)}, -4))
POSSESSOR_AND_USER_ALL = 0x3F3F0000
syscall("keyctl", 5, syscall("keyctl", 10, -4, b"user", {name.encode()!r}, 0),
        POSSESSOR_AND_USER_ALL)
""")
    yield Prepared({"name": name})
    _as_caller(place, f'syscall("keyctl", 9, {key}, -4)')


TABLE = {
    function.__name__: function
    for function in (nothing, caller_secret, home_secret, forged_run_id, host_root, victim,
                     extra_groups, setid_check, setuid_program, shown_interpreter, shown_file,
                     links_out, open_directory, output_file, input_file, output_pipe, input_pipe,
                     host_terminal, loopback_services, unix_sockets, shared_memory,
                     message_queues, user_key)
}
