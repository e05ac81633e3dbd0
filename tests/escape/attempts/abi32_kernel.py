# SPDX-License-Identifier: MIT
"""Reaches kernel interfaces through the 32-bit ABI: rings, keys, clocks."""
from lib import main, reached, syscall32, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp, for both ABIs"
CONTROL = "host"
EXPECT = "refused: EPERM"

CALLS = {
    "io_uring_setup": (425, 0, 0), "add_key": (286, 0, 0, 0, 0, 0), "keyctl": (288, 99),
    "userfaultfd": (374, -1), "adjtimex": (124, 0), "clock_settime": (264, -1, 0),
    "clock_settime64": (404, -1, 0), "stime": (25, 0), "perf_event_open": (336, 0),
    "bpf": (357, -1), "process_vm_readv": (347, 0, 0, 0, 0, 0), "modify_ldt": (123, 99),
}


def attempt():
    return try_each({
        name: lambda n=number, a=arguments: reached(syscall32, n, *a)
        for name, (number, *arguments) in CALLS.items()
    })


main(attempt)
