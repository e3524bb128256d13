"""The system calls that foreign code may not make, as a compiled filter.

Namespaces already take away the network, other processes and the file system; the filter takes away what is left of
the kernel's surface that no kernel author needs: tracing, module and mount calls, new namespaces, io_uring, keyrings.
"""

from __future__ import annotations

import os
import socket
from functools import cache

from kernelmill.trace_schema.errors import InternalError

DENIED = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    mount umount2 pivot_root chroot mount_setattr move_mount open_tree fsopen fsconfig fsmount fspick
    unshare setns bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    keyctl add_key request_key kexec_load kexec_file_load init_module finit_module delete_module
    open_by_handle_at name_to_handle_at fanotify_init quotactl acct swapon swapoff reboot syslog
    settimeofday clock_settime clock_adjtime adjtimex personality iopl ioperm vhangup lookup_dcookie nfsservctl
""".split()


@cache
def program() -> bytes:
    """The BPF program that `bwrap --seccomp` loads. Raises InternalError where libseccomp is missing."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise InternalError(f"libseccomp cannot be loaded ({error}); apt-get install libseccomp2") from error
    errno_eperm = pyseccomp.ERRNO(1)
    filter_ = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in DENIED:
        try:
            filter_.add_rule(errno_eperm, name)
        except (RuntimeError, OSError, ValueError):  # a call that this architecture or library does not have
            continue
    filter_.add_rule(errno_eperm, "socket", pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX))
    with os.fdopen(os.memfd_create("seccomp"), "w+b") as file:
        filter_.export_bpf(file)
        file.seek(0)
        return file.read()
