# SPDX-License-Identifier: MIT
"""A guest under qemu: the cgroup v2 and the systemd that the test machine may not have.

The kernel is Debian's, unpacked and not installed. The root file system is made from
files of this machine, packed as an initrd and moved to a tmpfs at once, because the
root that an initrd begins with cannot be pivoted away from.
"""
import glob
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

import harness

CACHE = harness.TOP / "build" / "guest"

# busybox is /init: it moves everything to a tmpfs and starts the real one there.
FIRST = """#!/busybox.first sh
/busybox.first mkdir /new
/busybox.first mount -t tmpfs -o mode=755,size=400M tmpfs /new
cd /
for name in *; do
	case $name in new | busybox.first | init) ;; *) /busybox.first mv "$name" /new/ ;; esac
done
exec /busybox.first switch_root /new {then}
"""


def kernel():
    """The path of a kernel image, fetched once."""
    found = sorted(CACHE.glob("boot/vmlinuz-*"))
    if found:
        return found[-1]
    CACHE.mkdir(parents=True, exist_ok=True)
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], check=True,
                             capture_output=True, text=True).stdout
    package = re.search(r"Depends: (linux-image-\d\S+)", depends)[1]
    with tempfile.TemporaryDirectory() as top:
        subprocess.run(["apt-get", "download", "-qq", package], cwd=top, check=True,
                       stderr=subprocess.DEVNULL)
        subprocess.run(["dpkg", "-x", glob.glob(f"{top}/*.deb")[0], f"{top}/x"], check=True)
        shutil.copy(glob.glob(f"{top}/x/lib/modules/*/kernel/drivers/block/loop.ko")[0], CACHE)
        shutil.copytree(f"{top}/x/boot", CACHE / "boot")
        owner = os.stat(harness.BUILD)  # whoever built, also when the tests run as root
        for path in (CACHE, *CACHE.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
    return sorted(CACHE.glob("boot/vmlinuz-*"))[-1]


def libraries(program):
    """The shared libraries a program loads."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)


class Tree:
    """The files of the guest; packs itself in the newc form of cpio."""

    def __init__(self, then):
        self.entries = {}
        for name in ("proc", "sys", "dev", "tmp", "run", "root", "home/user", "var"):
            self.directory(name)
        self.link("var/tmp", "/work/tmp")
        for name in ("bin", "sbin", "lib", "lib64"):
            self.link(name, f"usr/{name}")
        self.copy("/bin/busybox", "busybox.first")
        self.copy("/bin/busybox", "usr/bin/busybox")
        self.text("init", FIRST.format(then=then), 0o755)
        self.text("etc/passwd", "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"
                                "messagebus:x:100:100::/:/bin/false\n")
        self.text("etc/group", "root:x:0:\nuser:x:1000:\nmessagebus:x:100:\n")
        for applet in ("sh", "true", "false", "cat", "sleep", "ls", "tail", "id", "env", "mount",
                       "chown", "chmod", "mkdir", "poweroff", "su", "sed", "rm", "dd", "head"):
            self.link(f"usr/bin/{applet}", "busybox")

    def directory(self, name, mode=0o755):
        parts = pathlib.PurePath(name).parts
        for i in range(1, len(parts) + 1):
            self.entries.setdefault("/".join(parts[:i]), (stat.S_IFDIR | mode, b""))

    def _add(self, name, mode, data):
        self.directory(os.path.dirname(name) or ".")
        self.entries[name] = (mode, data)

    def text(self, name, text, mode=0o644):
        self._add(name, stat.S_IFREG | mode, text.encode())

    def link(self, name, target):
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def copy(self, source, name=None):
        """A file with the libraries it needs, at the path it has here unless named."""
        real = os.path.realpath(source)
        name = name or source.lstrip("/")
        name = re.sub(r"^(bin|sbin|lib|lib64)/", r"usr/\1/", name)
        if name in self.entries:
            return
        mode = stat.S_IFREG | (0o755 if os.access(real, os.X_OK) else 0o644)
        self._add(name, mode, pathlib.Path(real).read_bytes())
        if os.access(real, os.X_OK) or ".so" in real:
            for library in libraries(real):
                self.copy(library)

    def add_ext4(self):
        """A small ext4, and what mounts it: `sh /ext4 DIR`."""
        kernel()
        with tempfile.NamedTemporaryFile() as image:
            image.truncate(8 << 20)
            subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", image.name], check=True)
            self._add("ext4.image", stat.S_IFREG | 0o600, pathlib.Path(image.name).read_bytes())
        self.copy(str(CACHE / "loop.ko"), "loop.ko")
        self.text("ext4", "busybox insmod /loop.ko && busybox losetup /dev/loop0 /ext4.image && "
                          "busybox mount -t ext4 /dev/loop0 $1\n")

    def add_in_group(self):
        """`in-group DIR COMMAND...`: starts a command in a control group."""
        self.text("usr/bin/in-group", '#!/bin/sh\necho $$ >$1/cgroup.procs || exit\nshift\n'
                                      'exec "$@"\n', 0o755)

    def pack(self):
        out = bytearray()
        everything = [*self.entries.items(), ("TRAILER!!!", (0, b""))]
        for inode, (name, (mode, data)) in enumerate(everything, 1):
            if name == ".":
                continue
            links = 2 if stat.S_ISDIR(mode) else 1
            fields = [inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
            out += b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
            out += b"\0" * (-len(out) % 4)
            out += data
            out += b"\0" * (-len(out) % 4)
        return bytes(out)


def boot(tree, command_line="", timeout=240):
    """Runs the guest until it powers off; what it printed."""
    with tempfile.NamedTemporaryFile(suffix=".cpio") as initrd:
        initrd.write(tree.pack())
        initrd.flush()
        done = subprocess.run(
            ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-smp", "2",
             "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
             "-no-reboot", "-kernel", str(kernel()), "-initrd", initrd.name, "-append",
             f"console=ttyS0 panic=-1 quiet {command_line}"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    return done.stdout.decode(errors="replace").replace("\r", "")


def script(steps):
    """A shell script that runs each named command and frames what it prints."""
    lines = ["#!/bin/sh", "cd /tmp"]
    for name, command in steps.items():
        lines += [f'echo "@@begin {name}"', f"( {command} ) 2>&1", f'echo "@@end {name} $?"']
    return "\n".join(lines) + "\n"


def results(output):
    """What each command printed and returned: {name: (status, text)}."""
    found = re.findall(r"@@begin (\S+)\n(.*?)@@end \1 (\d+)\n", output, re.S)
    return {name: (int(status), text) for name, text, status in found}
