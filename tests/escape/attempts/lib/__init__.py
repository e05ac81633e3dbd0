# SPDX-License-Identifier: MIT
"""What the attempts share: raw system calls of both ABIs, and the one line they print."""
import ctypes
import errno
import json
import os
import pty
import sys

libc = ctypes.CDLL(None, use_errno=True)

# System calls of x86_64.
NUMBERS = {
    "open": 2, "ioctl": 16, "shmget": 29, "getpid": 39, "socket": 41,
    "socketpair": 53, "clone": 56, "msgget": 68, "creat": 85, "chmod": 90,
    "fchmod": 91, "ptrace": 101, "syslog": 103, "capset": 126, "mknod": 133, "modify_ldt": 154,
    "pivot_root": 155, "prctl": 157, "adjtimex": 159, "chroot": 161, "acct": 163,
    "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "clock_settime": 227,
    "mq_open": 240, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "migrate_pages": 256, "openat": 257, "mknodat": 259,
    "fchmodat": 268, "unshare": 272, "move_pages": 279, "perf_event_open": 298,
    "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304,
    "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434,
    "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "fchmodat2": 452,
}

# Answers of a layer that refuses; any other error means that the call got past it.
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT)

AT_FDCWD = -100
UPPER_BITS = 1 << 32  # what the kernel cuts off an int argument, and a filter may not
NAMESPACES = {
    "time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
    "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}


class Refused(Exception):
    """A refusal that is not an errno."""


def main(attempt, out=sys.stdout):
    """Runs attempt(**arguments): it returns what it gained, or raises how it was refused."""
    arguments = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    try:
        line = f"escaped: {attempt(**arguments)}"
    except OSError as error:
        line = f"refused: {errno.errorcode.get(error.errno, error)}"
    except Refused as refusal:
        line = f"refused: {refusal}"
    print(line, file=out, flush=True)


def try_each(calls):
    """Tries every {label: callable}; one that works is an escape."""
    refusals = {}
    for label, call in calls.items():
        try:
            call()
        except OSError as error:
            refusals[label] = error.errno
        else:
            return label
    if len(set(refusals.values())) == 1:
        raise OSError(refusals.popitem()[1], "all refused alike")
    raise Refused(", ".join(f"{k} {errno.errorcode[v]}" for k, v in refusals.items()))


def _argument(value):
    if isinstance(value, int):
        return ctypes.c_ulong(value & (2**64 - 1))
    return value


def syscall(name, *arguments):
    """A system call with all 64 bits of its arguments; raises OSError."""
    number = ctypes.c_long(NUMBERS.get(name, name))
    result = libc.syscall(number, *[_argument(a) for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), str(name))
    return result


def reached(call, *arguments):
    """A call with arguments that do nothing: an error about *them* counts as getting through."""
    try:
        call(*arguments)
    except OSError as error:
        if error.errno in REFUSALS:
            raise


# ---- the 32-bit ABI ----

INT80 = bytes.fromhex(
    "53"      # push rbx
    "89f8"    # mov eax, edi    the number
    "89f3"    # mov ebx, esi    1st argument
    "87d1"    # xchg ecx, edx   2nd and 3rd
    "4489c6"  # mov esi, r8d    4th
    "4489cf"  # mov edi, r9d    5th
    "cd80"    # int 0x80
    "5b"      # pop rbx
    "c3"      # ret
)
PROT_RWX, MAP_PRIVATE_ANON_32BIT = 7, 0x62


def low(content):
    """The address below 4 GiB of a copy of these bytes."""
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(max(len(content), 1)), PROT_RWX,
                        MAP_PRIVATE_ANON_32BIT, -1, ctypes.c_long(0))
    if address is None or address >= 2**32:
        raise Refused("no memory below 4 GiB")
    ctypes.memmove(address, content, len(content))
    return address


def syscall32(number, *arguments):
    """A system call of the 32-bit ABI; bytes are copied to where it can see them."""
    stub = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 6)(low(INT80))
    values = [low(a + b"\0") if isinstance(a, bytes) else a & (2**32 - 1) for a in arguments]
    result = stub(number, *values, *[0] * (5 - len(values)))
    if result < 0:
        raise OSError(-result, f"32-bit call {number}")
    return result


# ---- helpers ----

class Child:
    """A process of our own that waits until it is let go; gone at the end of the block."""

    def __enter__(self):
        read_fd, self.write_fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.write_fd)
            os.read(read_fd, 1)
            os._exit(0)
        os.close(read_fd)
        return self.pid

    def __exit__(self, *_):
        os.close(self.write_fd)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass


def read_memory(pid, address, size):
    """The bytes at an address of another process, by process_vm_readv."""
    buffer = ctypes.create_string_buffer(size)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), size)
    remote = (ctypes.c_size_t * 2)(address, size)
    syscall("process_vm_readv", pid, local, 1, remote, 1, 0)
    return buffer.raw


def on_terminal(call):
    """Makes a call in a child with a new controlling terminal as its descriptor 0."""
    pid, master_fd = pty.fork()
    if pid == 0:
        try:
            call()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(master_fd)
    if status:
        raise OSError(status, "on a terminal")


def touch(path, flags, mode=0):
    """Opens a path and closes it again."""
    os.close(os.open(path, flags, mode))
