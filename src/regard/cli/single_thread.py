"""How many threads a verb computes with."""

import os


def use_one_thread() -> None:
    """A few short inputs are one thread's work: others would mostly wait, and longer on a busy machine."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
