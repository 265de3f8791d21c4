"""Memory that is kept, in large pages, instead of being given back and asked for again at every training step.

A step makes and frees the same large tensors as the one before. The C library hands each of them back to the system,
which then has to find and clear every page anew: a quarter of the time that a small model takes to train.
"""

import ctypes
import mmap
import os
import sys

# glibc's malloc.h and the kernel's mman.h call them so.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
MADV_HUGEPAGE = 14

LARGEST = (1 << 31) - 1  # bytes: the most that mallopt can be told. Larger tensors still go back at once
AHEAD = LARGEST - (1 << 24)  # bytes in large pages: less than what is kept when it is free


def tune() -> None:
    """Call it before torch is imported, so that all of its memory comes from there. It changes no result.

    It needs glibc, and does nothing elsewhere or with REGARD_MALLOC=0.
    """
    if os.environ.get("REGARD_MALLOC") == "0" or not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return
    library.mallopt(M_TRIM_THRESHOLD, LARGEST)
    library.mallopt(M_MMAP_THRESHOLD, LARGEST)
    widen(library)


def widen(library: ctypes.CDLL) -> None:
    """Grow the heap by room that is not yet memory, and ask that it become large pages wherever it is written to."""
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.free.argtypes = [ctypes.c_void_p]
    room = library.malloc(AHEAD)
    if room is None:  # a limit on addresses: then with pages of the usual size
        return
    page = mmap.PAGESIZE
    first, end = -(-room // page) * page, (room + AHEAD) // page * page
    library.madvise(first, end - first, MADV_HUGEPAGE)
    library.free(room)
