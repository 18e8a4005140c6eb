"""The system calls that a GDAL try's process may make, by name, with their numbers on each architecture.

What is not named here is refused, what comes with later kernels too. Standard library only.
"""

from typing import Final

Numbers = tuple[int | None, int | None]

# What `platform.machine()` says, the place of its numbers below, and what the kernel calls it (AUDIT_ARCH).
ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# Harmless with any arguments: what they may do to a file, Landlock has decided when it was opened or named.
ALLOWED: Final[dict[str, Numbers]] = {
    # reading, writing and looking at files
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "lseek": (8, 62), "pread64": (17, 67), "pwrite64": (18, 68),
    "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286),
    "pwritev2": (328, 287), "stat": (4, None), "fstat": (5, 80), "lstat": (6, None), "newfstatat": (262, 79),
    "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getcwd": (79, 17), "chdir": (80, 49),
    "fchdir": (81, 50), "getdents": (78, None), "getdents64": (217, 61), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "unlink": (87, None), "unlinkat": (263, 35), "mkdir": (83, None), "mkdirat": (258, 34),
    "rmdir": (84, None), "ftruncate": (77, 46), "fallocate": (285, 47), "fsync": (74, 82), "fdatasync": (75, 83),
    "sync_file_range": (277, 84), "fadvise64": (221, 223), "flock": (73, 32), "sendfile": (40, 71),
    "copy_file_range": (326, 285), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None),
    "pipe2": (293, 59), "umask": (95, 166), "close_range": (436, 436),
    # waiting for files and for the flow's process
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create": (213, None),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "eventfd": (284, None), "eventfd2": (290, 19), "sendto": (44, 206), "sendmsg": (46, 211), "recvfrom": (45, 207),
    "recvmsg": (47, 212), "shutdown": (48, 210), "getsockname": (51, 204), "getpeername": (52, 205),
    "getsockopt": (55, 209),
    # memory, threads and their signals
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233),
    "brk": (12, 214), "msync": (26, 227), "mincore": (27, 232), "futex": (202, 98), "set_robust_list": (273, 99),
    "get_robust_list": (274, 100), "rseq": (334, 293), "set_tid_address": (218, 96), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126), "getcpu": (309, 168),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "sigaltstack": (131, 132), "pause": (34, None),
    "restart_syscall": (219, 128), "arch_prctl": (158, None), "exit": (60, 93), "exit_group": (231, 94),
    "wait4": (61, 260), "waitid": (247, 95),
    # time
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165),
    "getitimer": (36, 102), "setitimer": (38, 103), "alarm": (37, None),
    # who and where we are
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "getgroups": (115, 158), "getresuid": (118, 148),
    "getresgid": (120, 150), "getpgid": (121, 155), "getpgrp": (111, None), "getsid": (124, 156), "uname": (63, 160),
    "sysinfo": (99, 179), "getrandom": (318, 278), "getrlimit": (97, 163), "getpriority": (140, 141),
    "capget": (125, 90),
}  # fmt: skip

# Allowed with some arguments only: `flows.tries.seccomp_filter` says with which.
LOOKED_AT: Final[dict[str, Numbers]] = {
    "open": (2, None), "openat": (257, 56), "fcntl": (72, 25), "ioctl": (16, 29), "kill": (62, 129),
    "tgkill": (234, 131), "prlimit64": (302, 261), "prctl": (157, 167), "clone": (56, 220), "socketpair": (53, 199),
}  # fmt: skip

# Their arguments lie in memory, where no filter sees them. Libraries do without where a kernel does not know them.
UNKNOWN: Final[dict[str, Numbers]] = {
    "clone3": (435, 435),
    "openat2": (437, 437),
}
SECCOMP: Final[Numbers] = (317, 277)
CAPSET: Final[Numbers] = (126, 91)
# Calls with higher numbers than this (fchmodat2) were unknown when this list was made.
HIGHEST_KNOWN: Final = 452
