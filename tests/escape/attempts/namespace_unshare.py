# SPDX-License-Identifier: MIT
"""Makes new namespaces with unshare, each a fresh piece of kernel with full rights in it."""
from lib import NAMESPACES, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"


def attempt():
    both = NAMESPACES["user"] | NAMESPACES["net"]
    return try_each({
        **{n: lambda f=flag: syscall("unshare", f) for n, flag in NAMESPACES.items()},
        "user and net": lambda: syscall("unshare", both),
    })


main(attempt)
