"""Memory that is kept instead of being given back and asked for again at every training step.

A step makes and frees the same large tensors as the one before. The C library hands each of them back to the system,
which then has to give out, and clear, every page anew: a third of a small model's training time.
"""

import ctypes
import os
import sys

# glibc's names for them, from its malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

KEPT = (1 << 31) - 1  # bytes that may stay free in the process before they are given back: the most that it takes
MAPPED = 1 << 30  # bytes of one tensor from which on it still goes back at once


def tune() -> None:
    """Keep freed memory, and let PyTorch ask for large pages. It must be called before torch is imported.

    It needs glibc, and does nothing elsewhere or with REGARD_MALLOC=0. It changes no result.
    """
    if os.environ.get("REGARD_MALLOC") == "0" or not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return
    library.mallopt(M_TRIM_THRESHOLD, KEPT)
    library.mallopt(M_MMAP_THRESHOLD, MAPPED)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
